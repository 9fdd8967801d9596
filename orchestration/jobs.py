"""Jobs: the stream run of a pipeline, the fillings of its relations, a view's way back in step.

The stream run is an op job, not an asset job: as an asset it would stand in a cycle with the
backfills. All run in-process: the work is in Spark.
"""

from typing import TYPE_CHECKING

import dagster as dg

from ops.backfill.progress import pipeline_progress
from ops.common.epoch import Epoch
from ops.planner.apply import main_graph
from ops.planner.plan import PipelinePlan, TablePlan, ViewPlan
from orchestration import backfilling
from orchestration.errors import error_boundary
from orchestration.keys import (
    MAX_RETRIES_TAG,
    PIPELINE_TAG,
    STREAM_TAG,
    backfill_job_name,
    backfill_key,
    backfill_pool,
    follow_job_name,
    stream_job_name,
)
from orchestration.metadata import flush_metadata
from orchestration.opened import DeploymentResource
from orchestration.streaming import stream_run

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import (
        UnresolvedAssetJobDefinition,
    )

LEASE_WAIT_SECONDS = 3600.0


def build_stream_job(plan: PipelinePlan) -> dg.JobDefinition:
    """Return the job that holds the pipeline's main lease and takes barriers in order."""

    @dg.op(name=f"{plan.name}__take_barriers")
    def take_barriers(context: dg.OpExecutionContext, deployment: DeploymentResource) -> None:
        with error_boundary():
            opened, owner = deployment.of_run(context, main_graph(plan.name))

            def report(changed: frozenset[str], epoch: Epoch) -> None:
                progress = pipeline_progress(opened.store, plan.name)
                for relation in progress.relations:
                    if relation.name in changed and relation.settled:
                        context.log_event(
                            dg.AssetMaterialization(
                                asset_key=dg.AssetKey([plan.name, relation.name]),
                                metadata=flush_metadata(
                                    epoch, progress, relation, now_ms=opened.clock.now_ms()
                                ),
                            )
                        )

            stream_run(opened, plan.name, owner=owner, tell=context.log.info, report=report)

    @dg.job(
        name=stream_job_name(plan.name),
        description=f"Keeps the tables and views of {plan.name} up to date. The barrier sensor "
        "starts it; it needs no launching by hand.",
        executor_def=dg.in_process_executor,
        # The sensor starts the next one; Dagster's own retries would be a second.
        tags={PIPELINE_TAG: plan.name, STREAM_TAG: plan.name, MAX_RETRIES_TAG: "0"},
    )
    def stream() -> None:
        take_barriers()

    return stream


def build_backfill_job(relation: TablePlan | ViewPlan) -> "UnresolvedAssetJobDefinition":
    """Return the job by which sensors launch a backfill, with range tags for its partitions."""
    return dg.define_asset_job(
        backfill_job_name(relation),
        selection=dg.AssetSelection.assets(backfill_key(relation)),
        tags={PIPELINE_TAG: relation.pipeline},
        executor_def=dg.in_process_executor,
    )


def build_follow_job(view: ViewPlan) -> dg.JobDefinition:
    """Return the job that brings a view that fell out of step back to where it can rejoin."""

    @dg.op(name=f"{follow_job_name(view)}_log", pool=backfill_pool(view))
    def follow_log(context: dg.OpExecutionContext, deployment: DeploymentResource) -> None:
        with error_boundary():
            opened, owner = deployment.of_relation_run(context, view)
            followed = backfilling.backfill_view(
                opened,
                view.pipeline,
                view.name,
                (),
                owner=owner,
                tell=context.log.info,
                wait_s=LEASE_WAIT_SECONDS,
            )
            for _ in followed:
                pass

    @dg.job(
        name=follow_job_name(view),
        description=f"Follows the changes of {view.upstream} until {view.name} is in step again.",
        executor_def=dg.in_process_executor,
        tags={PIPELINE_TAG: view.pipeline, MAX_RETRIES_TAG: "0"},
    )
    def follow() -> None:
        follow_log()

    return follow
