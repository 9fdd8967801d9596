"""Is a table of the lake its source's table? `tidegate verify` as a check on the table's asset."""

import dagster as dg

from ops.backfill.cdc.verify.report import VerifyReport
from ops.planner.apply import verify_graph
from ops.planner.plan import TablePlan
from orchestration.attendance import attended
from orchestration.errors import error_boundary
from orchestration.keys import op_name, relation_key
from orchestration.opened import DeploymentResource
from orchestration.verifying import verify_table

SHOWN = 20


def build_equals_source(table: TablePlan) -> dg.AssetChecksDefinition:
    spec = dg.AssetCheckSpec(
        "equals_source",
        asset=relation_key(table),
        description="Compares checksums of key ranges, and row by row what differs. It takes the "
        "source a few short statements per million rows, so launch it when it may.",
    )

    @dg.multi_asset_check(
        name=op_name(relation_key(table), "equals_source"), specs=[spec], can_subset=False
    )
    def equals_source(
        context: dg.AssetCheckExecutionContext, deployment: DeploymentResource
    ) -> dg.AssetCheckResult:
        with error_boundary():
            graph = verify_graph(table.pipeline, table.name)
            opened, owner = deployment.of_run(context.op_execution_context, graph)
            tell = context.log.info
            with attended(opened, table.pipeline, owner=owner, tell=tell) as attendance:
                report = verify_table(
                    opened,
                    table.pipeline,
                    table.name,
                    owner=owner,
                    tell=tell,
                    check=attendance.check,
                )
        return dg.AssetCheckResult(
            passed=report.equal,
            asset_key=spec.asset_key,
            check_name=spec.name,
            metadata=_metadata(report),
        )

    return equals_source


def _metadata(report: VerifyReport) -> dict[str, dg.MetadataValue]:
    keys = [f"{', '.join(map(str, k.key))}: {k.fault.value}" for k in report.keys[:SHOWN]]
    return {
        "rows": dg.MetadataValue.int(report.rows),
        "ranges": dg.MetadataValue.int(report.ranges),
        "ranges_read_by_row": dg.MetadataValue.int(report.read_ranges),
        "rows_that_differ": dg.MetadataValue.int(report.wrong),
        "keys_that_differ": dg.MetadataValue.json(keys),
    }
