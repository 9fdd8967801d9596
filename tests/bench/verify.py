"""`tidegate bench verify`: a table and its source compared, alone and with three rows that differ.

    equal      verify, nothing written meanwhile: checksums of both sides
    repair     one byte changed, one row missing, one extra, unseen by the stream: found, written
    again      verify after that
    copy out   what checksums save: all rows sent by the source, to nobody who looks at them

One process, one Spark, the table folded first.
"""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql
from rich.console import Console
from rich.table import Table

from ops.backfill.cdc.verify.report import VerifyReport
from orchestration import maintenance, verifying
from orchestration.demo_shop import make_shop
from orchestration.deployment import Deployment, open_deployment
from orchestration.local_run import LocalRun
from resources.settings import Settings

PIPELINE = "shop"


def bench_verify(settings: Settings, *, rows: int, json_path: str | None) -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as made:
        home = Path(made)
        home.chmod(0o755)
        ours = replace(
            settings,
            home=home,
            lake=str(home / "lake"),
            pipelines=settings.root / "sql" / "pipelines",
            control_dsn=None,
            fold_interval_seconds=1e9,
        )
        with open_deployment(ours) as deployment:
            figures = _measure(deployment, rows, console)
    table = Table(show_header=False, title=f"verify: {rows:,} rows")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
    console.print(table)
    if json_path:
        Path(json_path).write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def _measure(deployment: Deployment, rows: int, console: Console) -> dict[str, float | int]:
    assert deployment.embedded is not None
    dsn = deployment.embedded.ensure_database("shop").reveal()
    console.print(f"making {rows:,} rows …", style="dim")
    make_shop(dsn, rows)
    deployment.spark()
    with LocalRun(deployment, PIPELINE, tell=console.print) as local:
        local.wait_settled(on_progress=lambda _: None)
        maintenance.fold(deployment, PIPELINE, owner="bench")

        def timed(work: Callable[..., VerifyReport]) -> tuple[float, VerifyReport]:
            begun = time.monotonic()
            tell, check = console.print, local.check
            report = work(deployment, PIPELINE, "orders", owner="bench", tell=tell, check=check)
            return time.monotonic() - begun, report

        figures: dict[str, float | int] = {}
        for name in ("equal, first", "equal, s"):
            figures[name], report = timed(verifying.verify_table)
            assert report.equal and report.rows == rows, report
        _damage(dsn, rows)
        figures["verify of three, s"], report = timed(verifying.verify_table)
        assert report.wrong == 3, report
        figures["repair of three, s"], report = timed(verifying.repair_table)
        assert report.repaired == 3, report
        figures["equal again, s"], report = timed(verifying.verify_table)
        assert report.equal, report
        figures["ranges"] = report.ranges
        figures["copy out, one connection, s"] = _copy(dsn)
    return figures


def _damage(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn) as source:
        row = source.execute("SELECT pubname FROM pg_publication").fetchone()
        assert row is not None
        name = sql.Identifier(str(row[0]))
        source.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE orders").format(name))
        source.execute("UPDATE orders SET quantity = quantity + 1 WHERE id = %s", [rows // 2])
        source.execute("DELETE FROM orders WHERE id = %s", [rows // 3])
        source.execute(
            "INSERT INTO orders SELECT -1, region, amount, quantity, paid, day, placed_at "
            "FROM orders WHERE id = 1"
        )
        source.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE orders").format(name))


def _copy(dsn: str) -> float:
    begun = time.monotonic()
    with (
        psycopg.connect(dsn) as source,
        source.cursor() as cursor,
        cursor.copy("COPY orders TO STDOUT (FORMAT binary)") as copy,
    ):
        for _ in copy:
            pass
    return time.monotonic() - begun
