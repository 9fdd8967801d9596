"""`tidegate verify` and `tidegate repair`: what was compared, what differed, what was written."""

import json
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from ops.backfill.cdc.verify.ranges import ALL, parse_range
from ops.backfill.cdc.verify.report import VerifyReport
from ops.common.errors import ConfigError
from orchestration import reading, verifying
from orchestration.attendance import attended
from orchestration.controls import require_applied
from orchestration.deployment import Deployment, open_deployment
from resources.settings import Settings

SHOWN = 20


def verify(settings: Settings, relation: str, *, keys: str | None, as_json: bool) -> int:
    with open_deployment(settings) as deployment:
        report = _of_table(deployment, relation, verifying.verify_table, keys, as_json)
    _print(report, as_json=as_json)
    if report.equal:
        return 0
    if not as_json:
        Console().print(f"`tidegate repair {relation}` writes what the source has", style="dim")
    return 1


def repair(settings: Settings, name: str, *, keys: str | None, as_json: bool) -> int:
    """Repair a table, or all tables of a pipeline: then a slot that is lost is made anew, too."""
    with open_deployment(settings) as deployment:
        if name in deployment.pipelines() and not _is_table(deployment, name):
            if keys is not None:
                raise ConfigError(f"{name} is a pipeline: --range is for one table")
            reports = _repair_pipeline(deployment, name, as_json=as_json)
        else:
            reports = [_of_table(deployment, name, verifying.repair_table, keys, as_json)]
    for report in reports:
        _print(report, as_json=as_json)
    return 0


def _repair_pipeline(deployment: Deployment, pipeline: str, *, as_json: bool) -> list[VerifyReport]:
    tell, owner = Console(stderr=as_json).print, deployment.owner
    require_applied(deployment, pipeline)
    verifying.renew(deployment, pipeline, owner=owner, tell=tell)
    tell("starting Spark …")
    deployment.spark()
    with attended(deployment, pipeline, owner=owner, tell=tell) as attendance:
        return verifying.repair_pipeline(
            deployment, pipeline, owner=owner, tell=tell, check=attendance.check
        )


def _is_table(deployment: Deployment, name: str) -> bool:
    return any(name == t.name for plan in deployment.pipelines().values() for t in plan.tables)


def _of_table(
    deployment: Deployment,
    name: str,
    work: Callable[..., VerifyReport],
    keys: str | None,
    as_json: bool,
) -> VerifyReport:
    relation = reading.find(deployment, name)
    if relation.kind != "table":
        raise ConfigError(f"{name} is a view; name the table that it reads")
    within = ALL if keys is None else parse_range(keys, relation.schema.key_columns)
    tell, owner = Console(stderr=as_json).print, deployment.owner
    tell("starting Spark …")
    deployment.spark()
    with attended(deployment, relation.pipeline, owner=owner, tell=tell) as attendance:
        return work(
            deployment,
            relation.pipeline,
            relation.name,
            within=within,
            owner=owner,
            tell=tell,
            check=attendance.check,
        )


def _print(report: VerifyReport, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(as_words(report), default=str))
        return
    console = Console(highlight=False)
    read = f", {report.read_ranges} of them row by row" if report.read_ranges else ""
    said = "equal to its source" if report.equal else f"{report.wrong:,} rows differ"
    if report.repaired:
        said += f", {report.repaired:,} were written"
    console.print(
        f"{report.relation}: {report.rows:,} rows in {report.ranges} ranges{read}: {said}"
    )
    if not report.keys:
        return
    table = Table("key", "the lake's row is", "columns")
    for wrong in report.keys[:SHOWN]:
        table.add_row(", ".join(map(str, wrong.key)), wrong.fault.value, ", ".join(wrong.columns))
    console.print(table)
    if report.wrong > SHOWN:
        console.print(f"… and {report.wrong - SHOWN:,} more; --json lists up to a thousand")


def as_words(report: VerifyReport) -> dict[str, object]:
    """Return a report as programs read it."""
    return {
        "relation": report.relation,
        "equal": report.equal,
        "rows": report.rows,
        "ranges": report.ranges,
        "ranges_read": report.read_ranges,
        "wrong": report.wrong,
        "wrong_ranges": [[str(r), n] for r, n in report.wrong_ranges.items()],
        "repaired": report.repaired,
        "epoch": report.epoch,
        "keys": [
            {"key": list(k.key), "fault": k.fault.value, "columns": list(k.columns)}
            for k in report.keys
        ],
    }
