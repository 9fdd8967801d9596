"""A table or view as an asset: materializing it is a flush, which reports where it has come to."""

import dagster as dg

from ops.backfill.progress import pipeline_progress
from ops.planner.apply import main_graph
from ops.planner.plan import TablePlan, ViewPlan
from orchestration.attendance import flush_attended
from orchestration.errors import error_boundary
from orchestration.keys import op_name, relation_key
from orchestration.metadata import flush_metadata
from orchestration.opened import DeploymentResource


def build_flush(relation: TablePlan | ViewPlan, spec: dg.AssetSpec) -> dg.AssetsDefinition:
    """Return the asset whose materialization waits until all the source holds now is committed."""

    @dg.multi_asset(name=op_name(relation_key(relation), "flush"), specs=[spec])
    def flush(
        context: dg.AssetExecutionContext, deployment: DeploymentResource
    ) -> dg.MaterializeResult:
        with error_boundary():
            opened, owner = deployment.of_run(context, main_graph(relation.pipeline))
            epoch = flush_attended(opened, relation.pipeline, owner=owner, tell=context.log.info)
            progress = pipeline_progress(opened.store, relation.pipeline)
            found = next(r for r in progress.relations if r.name == relation.name)
            shown = flush_metadata(epoch, progress, found, now_ms=opened.clock.now_ms())
            return dg.MaterializeResult(asset_key=spec.key, metadata=shown)

    return flush
