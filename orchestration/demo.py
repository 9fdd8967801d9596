"""`tidegate demo`: a shop of orders, filled while it is written to, followed live, and checked.

It runs the same Dagster definitions as `tidegate up`, in this process and without a daemon: the
stream job in one thread, the two backfill assets in another. It has a home of its own, made anew
each time, so that it never touches a deployment.
"""

import shutil
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ops.backfill.progress import pipeline_progress
from ops.common.arrow import arrow_schema
from ops.common.table.relation import find_relation, relations_of
from orchestration import reading, running, verifying
from orchestration.demo_shop import Writer, make_shop, source_rows
from orchestration.deployment import Deployment, open_deployment
from orchestration.keys import RANGE_END_TAG, RANGE_START_TAG, backfill_key, stream_job_name
from orchestration.partitions import partition_of
from orchestration.screen import ProgressView
from resources.settings import Settings, export, load_settings

PIPELINE = "shop"
FOLLOW_SECONDS = 10.0
GRANT_SECONDS = 15.0
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
JUDGED = {
    "orders": "SELECT id, region, amount, quantity, paid, day, placed_at FROM orders ORDER BY id",
    "revenue": "SELECT region, count(*), sum(amount), sum(quantity) FROM orders GROUP BY region "
    'ORDER BY region COLLATE "C"',
}


@dataclass(frozen=True, slots=True)
class Verdict:
    relation: str
    rows: int
    equal: bool


def demo(settings: Settings, *, rows: int) -> int:
    console = Console()
    ours = _fresh_home(settings)
    started = time.monotonic()
    with open_deployment(ours) as deployment:
        assert deployment.embedded is not None
        dsn = deployment.embedded.ensure_database("shop").reveal()
        console.print(f"1  making a shop of {rows:,} orders in an embedded Postgres …")
        make_shop(dsn, rows)
        console.print("2  starting Spark …")
        deployment.spark()
        verdicts, figures = _play(deployment, dsn, rows, console)
    _summary(console, figures, verdicts, time.monotonic() - started)
    where = ours.home.relative_to(ours.root) if ours.home.is_relative_to(ours.root) else ours.home
    console.print(f"Look around: TIDEGATE_HOME={where} ./tidegate read revenue", highlight=False)
    return 0 if all(v.equal for v in verdicts) else 1


def _fresh_home(settings: Settings) -> Settings:
    """Give the demo a home of its own; whatever an earlier demo left there goes."""
    home = settings.home / "demo"
    if home.exists():
        shutil.rmtree(home)
    home.mkdir(parents=True)
    export(
        {
            "TIDEGATE_HOME": str(home),
            "TIDEGATE_PIPELINES": str(settings.root / "sql" / "pipelines"),
            "TIDEGATE_LINGER_SECONDS": "inf",
            "TIDEGATE_LAKE": "",
            "TIDEGATE_CONTROL_DSN": "",
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }
    )
    return load_settings()


def _play(
    deployment: Deployment, dsn: str, rows: int, console: Console
) -> tuple[list[Verdict], dict[str, str]]:
    runs = DagsterRuns(deployment)
    figures: dict[str, str] = {}
    view = ProgressView(console)
    with Writer(dsn, rows) as writer, runs:
        console.print("3  filling the table and the view while orders keep changing …")
        begun = time.monotonic()
        reading_since: float | None = None
        with view.shown():
            while True:
                runs.check()
                progress = pipeline_progress(deployment.store, PIPELINE)
                view.update(progress)
                table = next(r for r in progress.relations if r.name == "orders")
                if reading_since is None and table.parts:
                    reading_since = time.monotonic()
                if "rows read" not in figures and table.parts_read == table.parts:
                    assert reading_since is not None
                    seconds = max(time.monotonic() - reading_since, 0.001)
                    figures["rows read"] = f"{table.rows:,}, {table.rows / seconds:,.0f} a second"
                if progress.settled:
                    break
                time.sleep(0.2)
        figures["seconds to live, view in step"] = f"{time.monotonic() - begun:.1f}"
        console.print(f"4  all live; following the writer for {FOLLOW_SECONDS:.0f} s …")
        time.sleep(FOLLOW_SECONDS)
        runs.check()
        writer.stop()
        console.print("5  flushing, then comparing lake and source row by row …")
        running.flush(deployment, PIPELINE, check=runs.check)
        figures["changes by the writer"] = f"{writer.changes:,} in {writer.transactions:,} commits"
        figures["epochs committed"] = f"{_epochs(deployment):,}"
        verdicts = [_judge(deployment, dsn, name) for name in JUDGED]
        return [*verdicts, _verified(deployment, runs, console, figures)], figures


class DagsterRuns:
    """The stream job and the backfill assets, as in-process Dagster runs in threads."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._error: BaseException | None = None
        self._leaving = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded(body), name=f"demo {name}", daemon=True)
            for name, body in (
                ("stream", self._stream),
                ("backfills", self._backfills),
                ("grants", self._grants),
            )
        ]

    def __enter__(self) -> "DagsterRuns":
        # Dagster's own use of a beta parameter; nothing a user of the demo can act on.
        warnings.filterwarnings("ignore", category=dg.BetaWarning)
        # Read here: the definitions look at the settings when they are loaded.
        from orchestration.definitions import defs

        self._defs = defs
        folder = self._deployment.settings.dagster_home
        folder.mkdir(parents=True)
        self._instance = dg.DagsterInstance.local_temp(str(folder))
        running.ensure_applied(self._deployment, self._deployment.pipeline(PIPELINE))
        self._grant()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        stream, *others = self._threads
        for thread in others:
            thread.join()
        if stream.is_alive():
            self._deployment.store.query("insert_command", pipeline=PIPELINE, kind="stop")
        stream.join()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def _stream(self) -> None:
        job = self._defs.resolve_job_def(stream_job_name(PIPELINE))
        job.execute_in_process(instance=self._instance, run_config=QUIET)

    def _backfills(self) -> None:
        plan = self._deployment.pipeline(PIPELINE)
        for relation in (*plan.tables, *plan.views):
            key, count = backfill_key(relation), relation.vnode_count
            dg.materialize(
                [self._defs.get_assets_def(key)],
                resources=self._defs.resources,
                instance=self._instance,
                run_config=QUIET,
                tags={
                    RANGE_START_TAG: partition_of(0, count),
                    RANGE_END_TAG: partition_of(count - 1, count),
                },
            )

    def _grants(self) -> None:
        while not self._leaving.wait(GRANT_SECONDS / 3):
            self._grant()

    def _grant(self) -> None:
        self._deployment.store.execute("grant_barriers", pipeline=PIPELINE, seconds=GRANT_SECONDS)

    def _guarded(self, body: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                body()
            except BaseException as error:
                self._error = self._error or error

        return run


def _judge(deployment: Deployment, dsn: str, name: str) -> Verdict:
    """Compare a relation, row by row and value by value, with what the source says."""
    relation = find_relation(relations_of(deployment.store, PIPELINE), name)
    schema = arrow_schema(relation.schema.columns)
    expected = source_rows(dsn, JUDGED[name], schema)
    found = reading.rows(deployment, name).cast(schema)
    found = found.sort_by([(key, "ascending") for key in relation.schema.key])
    return Verdict(name, found.num_rows, _same(found, expected))


def _verified(
    deployment: Deployment, runs: DagsterRuns, console: Console, figures: dict[str, str]
) -> Verdict:
    """Let `tidegate verify` say the same by checksums, as it does for a table of any size."""
    begun = time.monotonic()
    report = verifying.verify_table(
        deployment, PIPELINE, "orders", owner="demo", tell=console.print, check=runs.check
    )
    seconds = time.monotonic() - begun
    figures["verified by checksums"] = f"{report.ranges} ranges in {seconds:.1f} s"
    return Verdict("orders, verified", report.rows, report.equal)


def _same(found: pa.Table, expected: pa.Table) -> bool:
    return bool(found.combine_chunks().equals(expected.combine_chunks()))


def _epochs(deployment: Deployment) -> int:
    rows = deployment.store.query("count_epochs", graph=PIPELINE)
    return int(rows[0]["epochs"])


def _summary(
    console: Console, figures: dict[str, str], verdicts: list[Verdict], seconds: float
) -> None:
    table = Table(show_header=False, title=f"demo: {seconds:.0f} s in all")
    for name, value in figures.items():
        table.add_row(name, value)
    for verdict in verdicts:
        said = "[green]equal to its source[/]" if verdict.equal else "[red]DIFFERS[/]"
        table.add_row(f"{verdict.relation}: {verdict.rows:,} rows", said)
    console.print(table)
