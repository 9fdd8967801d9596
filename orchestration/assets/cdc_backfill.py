"""The snapshot of a table as an asset: one partition per vnode, reported as each is finished.

The body opens resources and calls one executor. What to read, in which order, and when a vnode is
finished is decided in `ops.backfill.cdc`.
"""

from collections.abc import Iterator

import dagster as dg

from ops.planner.plan import TablePlan
from orchestration import backfilling
from orchestration.assets.reporting import report_vnodes
from orchestration.errors import error_boundary
from orchestration.keys import backfill_key, backfill_pool, op_name
from orchestration.metadata import definition_metadata
from orchestration.opened import DeploymentResource
from orchestration.partitions import parse_vnodes, vnode_partitions

LEASE_WAIT_SECONDS = 3600.0


def build_cdc_backfill(table: TablePlan) -> dg.AssetsDefinition:
    """Return the asset that reads all rows of `table` from its source, in short pages."""
    spec = dg.AssetSpec(
        backfill_key(table),
        group_name=table.pipeline,
        description=(
            f"Rows of {table.external_schema}.{table.external_table} read from source "
            f"{table.source} in splits, while its changes are being kept. "
            "A vnode is a share of the splits."
        ),
        kinds={"postgres", "spark", "parquet"},
        metadata=definition_metadata(table.definition, table.vnode_count),
        partitions_def=vnode_partitions(table.vnode_count),
        skippable=True,
    )

    @dg.multi_asset(
        name=op_name(spec.key),
        specs=[spec],
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=backfill_pool(table),
    )
    def cdc_backfill(
        context: dg.AssetExecutionContext, deployment: DeploymentResource
    ) -> Iterator[dg.MaterializeResult]:
        with error_boundary():
            opened, owner = deployment.of_relation_run(context, table)
            finished = backfilling.backfill_table(
                opened,
                table.pipeline,
                table.name,
                parse_vnodes(context.partition_keys),
                owner=owner,
                tell=context.log.info,
                wait_s=LEASE_WAIT_SECONDS,
            )
            report_vnodes(
                context,
                spec.key,
                finished,
                vnode_count=table.vnode_count,
                version=backfilling.version_to_fill(opened, table),
            )
        yield from ()

    return cdc_backfill
