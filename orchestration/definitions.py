"""What Dagster loads: the assets, jobs and sensor of every pipeline in the folder of definitions.

Loading opens no connection and starts no Spark: what the SQL says is known by reading it.
"""

from collections.abc import Mapping

import dagster as dg

from ops.planner.plan import PipelinePlan
from orchestration.assets.cdc_backfill import build_cdc_backfill
from orchestration.assets.snapshot_backfill import build_snapshot_backfill
from orchestration.assets.table import build_table
from orchestration.assets.view import build_view
from orchestration.checks.backfill import build_equals_source
from orchestration.deployment import read_pipelines
from orchestration.io_manager import TidegateIOManager
from orchestration.jobs import build_backfill_job, build_follow_job, build_stream_job
from orchestration.opened import DeploymentResource, SparkResource
from orchestration.sensors.barrier import build_barrier_sensor
from resources.settings import load_settings


def build_definitions(plans: Mapping[str, PipelinePlan]) -> dg.Definitions:
    tables = [table for plan in plans.values() for table in plan.tables]
    views = [view for plan in plans.values() for view in plan.views]
    jobs = [
        *(build_stream_job(plan) for plan in plans.values()),
        *(build_backfill_job(relation) for relation in (*tables, *views)),
        *(build_follow_job(view) for view in views),
    ]
    spark = SparkResource()
    deployment = DeploymentResource(spark=spark)
    return dg.Definitions(
        assets=[
            *(build_cdc_backfill(table) for table in tables),
            *(build_table(table) for table in tables),
            *(build_snapshot_backfill(view) for view in views),
            *(build_view(view) for view in views),
        ],
        asset_checks=[build_equals_source(table) for table in tables],
        jobs=jobs,
        sensors=[build_barrier_sensor(plans, jobs)] if jobs else [],
        resources={
            "deployment": deployment,
            "spark": spark,
            "tidegate": TidegateIOManager(deployment=deployment),
        },
        executor=dg.in_process_executor,
    )


defs = build_definitions(read_pipelines(load_settings().pipelines))
