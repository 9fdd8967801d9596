"""The snapshot phase of a view as an asset: one partition per vnode, reported as each is finished.

The body opens resources and calls one executor. What to read, in which order, and when a vnode is
finished is decided in `ops.backfill.snapshot_backfill`. Where nobody runs the pipeline's stream
(no daemon), this run does meanwhile: a table that is read through goes live only by it.
"""

from collections.abc import Iterator

import dagster as dg

from ops.planner.plan import ViewPlan
from orchestration import backfilling
from orchestration.assets.reporting import report_vnodes
from orchestration.attendance import attended, require_upstream_filled
from orchestration.errors import error_boundary
from orchestration.keys import backfill_key, backfill_pool, op_name, upstream_key
from orchestration.metadata import definition_metadata
from orchestration.opened import DeploymentResource
from orchestration.partitions import parse_vnodes, vnode_partitions

LEASE_WAIT_SECONDS = 3600.0


def build_snapshot_backfill(view: ViewPlan) -> dg.AssetsDefinition:
    """Return the asset that reads the upstream of `view` at its snapshot epoch."""
    spec = dg.AssetSpec(
        backfill_key(view),
        deps=[upstream_key(view)],
        group_name=view.pipeline,
        description=f"Rows of {view.upstream} at the snapshot epoch, folded vnode by vnode.",
        kinds={"spark", "parquet"},
        metadata=definition_metadata(view.definition, view.vnode_count),
        partitions_def=vnode_partitions(view.vnode_count),
        skippable=True,
    )

    @dg.multi_asset(
        name=op_name(spec.key),
        specs=[spec],
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=backfill_pool(view),
    )
    def snapshot_backfill(
        context: dg.AssetExecutionContext, deployment: DeploymentResource
    ) -> Iterator[dg.MaterializeResult]:
        with error_boundary():
            opened, owner = deployment.of_relation_run(context, view)
            require_upstream_filled(opened, view, tell=context.log.info)
            with attended(opened, view.pipeline, owner=owner, tell=context.log.info):
                finished = backfilling.backfill_view(
                    opened,
                    view.pipeline,
                    view.name,
                    parse_vnodes(context.partition_keys),
                    owner=owner,
                    tell=context.log.info,
                    wait_s=LEASE_WAIT_SECONDS,
                )
                report_vnodes(
                    context,
                    spec.key,
                    finished,
                    vnode_count=view.vnode_count,
                    version=backfilling.version_to_fill(opened, view),
                )
        yield from ()

    return snapshot_backfill
