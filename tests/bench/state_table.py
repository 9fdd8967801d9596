"""`tidegate bench state-table`: a state table alone, 10 k changes per tick, beside Delta MERGE.

    tick     write the log file, commit it, and read its changes as a subscriber does: key, old, new
    merge    Delta MERGE of the same changes into a Delta table of the same rows

in turn, in one process, on one Spark; once with before images, and once with look-ups; the keys of
a tick are spread over the table, or lie in a few clusters. Then a read at an epoch beside a plain
Delta read, and many ticks in a row with merging and folding on. The changes that were read are
counted and summed, and checked against what was written.
"""

import json
import random
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import acquire
from ops.common.arrow import arrow_schema
from ops.common.epoch import Epoch
from ops.common.ports import unarmed
from ops.common.schema import INT8, TEXT, Column, DataType, Kind, Schema
from ops.common.table.fold import Folder
from ops.common.table.key_range import ranges_of
from ops.common.table.log import log_table
from ops.common.table.merge import LogMerger
from ops.common.table.net import Net, NetRow
from ops.common.table.relation import StagedFile, changed_files, contents, listing
from ops.common.table.state_table import StateTable
from ops.planner.apply import maintenance_graph
from orchestration.deployment import Deployment, open_deployment
from resources.settings import Settings
from resources.spark import new_session, release_session
from tests.support.control import Place

CHANGES, CLUSTERS = 10_000, 8
WARM_UP, ROUNDS = 1, 3
STEP = 1 << 16
MAX_LOG_FILES = 16
FOLD_EVERY = 60
SCHEMA = Schema(
    (
        Column("id", INT8, nullable=False),
        Column("region", INT8),
        Column("amount", DataType(Kind.NUMERIC, 12, 2)),
        Column("note", TEXT),
    ),
    ("id",),
)
ROWS = (
    "id",
    "id % 1000 AS region",
    "CAST(id % 9973 AS DECIMAL(12,2)) AS amount",
    "concat('n', id) AS note",
)
OLD, NEW = Decimal("2.50"), Decimal("1.25")


@dataclass
class Case:
    keys: int
    spread: str
    images: bool
    ticks: list[float] = field(default_factory=list)
    merges: list[float] = field(default_factory=list)
    tick_mb: list[float] = field(default_factory=list)
    merge_mb: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.merges) / statistics.median(self.ticks)


def bench_state_table(
    settings: Settings, *, millions: list[int], ticks: int, json_path: str | None
) -> int:
    console = Console()
    figures: dict[str, Any] = {"changes": CHANGES, "cases": []}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as made:
        home = Path(made)
        home.chmod(0o755)
        ours = replace(settings, home=home, lake=str(home / "lake"), control_dsn=None)
        with open_deployment(ours) as deployment:
            for number in millions:
                bench = Bench(deployment, number * 1_000_000, console)
                figures["cases"] += bench.cases()
                figures[f"read_{number}m"] = bench.read()
                if number == millions[0] and ticks:
                    figures["in_a_row"] = bench.in_a_row(ticks)
    _report(console, figures)
    if json_path:
        cases = [{**asdict(c), "merge_over_tick": round(c.ratio, 2)} for c in figures["cases"]]
        Path(json_path).write_text(json.dumps({**figures, "cases": cases}, indent=2) + "\n")
    return 0


class Bench:
    """One table of `keys` rows with its base, and a Delta table of the same rows beside it."""

    def __init__(self, deployment: Deployment, keys: int, console: Console) -> None:
        self.deployment, self.keys, self.console = deployment, keys, console
        self.spark: SparkSession = deployment.spark()
        self.store, self.lake = deployment.store, deployment.lake
        self.random = random.Random(1)
        self.place = Place(deployment.store, f"bench{keys}")
        self.store.execute("ensure_pipeline", pipeline=self.place.pipeline, interval_ms=1000)
        self.store.execute(
            "ensure_graph", graph=self.place.main, pipeline=self.place.pipeline, kind="main"
        )
        self.relation = self.place.create("t", SCHEMA)
        self.table = StateTable(self.spark, self.lake, self.relation)
        self.term = acquire(self.store, self.relation.graph, owner="bench", seconds=1e6)
        self.now = Epoch(self.term.committed)
        self.peer = self.lake.uri(f"{self.place.pipeline}/peer")
        self._make()

    def _make(self) -> None:
        self.console.print(f"making {self.keys:,} rows, twice …", style="dim")
        rows = self.spark.range(1, self.keys + 1, 1, max(4, self.keys // 1_000_000))
        frame = rows.selectExpr(*ROWS)
        frame.write.format("delta").save(self.lake.uri(self.relation.path))
        frame.write.format("delta").save(self.peer)
        self._commit(None)
        found = self.deployment.delta.latest(self.relation.path)
        assert found is not None
        self.store.execute(
            "insert_base",
            relation=self.relation.id,
            epoch=self.now,
            path=self.relation.path,
            version=found[0],
        )
        self.store.execute("set_log_start", relation=self.relation.id, epoch=self.now)

    def cases(self) -> list[Case]:
        cases = [
            Case(self.keys, spread, images)
            for spread in ("random", "clustered")
            for images in (True, False)
        ]
        for round_ in range(WARM_UP + ROUNDS):
            for case in cases:
                chosen = self._keys(case.spread)
                took, read = self._timed(lambda: self._tick(chosen, images=case.images))  # noqa: B023
                merged, merge_read = self._timed(lambda: self._merge(chosen))  # noqa: B023
                if round_ >= WARM_UP:
                    case.ticks.append(took)
                    case.merges.append(merged)
                    case.tick_mb.append(read)
                    case.merge_mb.append(merge_read)
                self.console.print(
                    f"  {case.keys:,} {case.spread}, {_how(case)}: tick {took:.2f} s, {read:.0f} MB"
                    f" read; merge {merged:.2f} s, {merge_read:.0f} MB read",
                    style="dim",
                )
        return cases

    def read(self) -> dict[str, float]:
        """Read everything at the newest epoch, with the log the ticks have left, and plainly."""
        whole = contents(self.store, self.relation, self.now)
        plain = self.spark.read.format("delta").load(self.peer)
        found = []
        for _ in range(4):
            ours = self._timed(lambda: _drain(self.table.read(whole)))[0]
            theirs = self._timed(lambda: _drain(plain))[0]
            found.append((ours, theirs))
        at_epoch, delta = (statistics.median(side) for side in zip(*found[1:], strict=True))
        return {
            "log_files": len(whole.logs),
            "at_epoch_s": round(at_epoch, 3),
            "plain_delta_s": round(delta, 3),
            "ratio": round(at_epoch / delta, 2),
        }

    def in_a_row(self, ticks: int) -> dict[str, Any]:
        """Many ticks with look-ups, merging at 16 log files and folding every 60 ticks."""
        took, merging, folding = [], [], []
        merger = LogMerger(
            self.store, self.lake, self.spark, unarmed, self.term.graph, self.term.term
        )
        for number in range(ticks):
            chosen = self._keys("random")
            took.append(self._timed(lambda: self._tick(chosen, images=False))[0])  # noqa: B023
            merging.append(
                self._timed(lambda: merger.merge_if_many(self.relation, limit=MAX_LOG_FILES))[0]
            )
            if number % FOLD_EVERY == FOLD_EVERY - 1:
                folding.append(self._timed(self._fold)[0])
                self.console.print(
                    f"  {number + 1} ticks: {statistics.median(took[-FOLD_EVERY:]):.2f} s each,"
                    f" fold {folding[-1]:.1f} s",
                    style="dim",
                )
        part = max(1, ticks // 10)
        first, last = statistics.median(took[:part]), statistics.median(took[-part:])
        return {
            "ticks": ticks,
            "first_tenth_s": round(first, 3),
            "last_tenth_s": round(last, 3),
            "growth": round(last / first, 2),
            "merge_s_per_tick": round(sum(merging) / ticks, 3),
            "fold_s": [round(f, 2) for f in folding],
        }

    def _keys(self, spread: str) -> list[int]:
        if spread == "random":
            return self.random.sample(range(1, self.keys + 1), CHANGES)
        each = CHANGES // CLUSTERS
        starts = (self.random.randrange(1, self.keys - each) for _ in range(CLUSTERS))
        return sorted({start + n for start in starts for n in range(each)})

    def _tick(self, keys: list[int], *, images: bool) -> None:
        net: Net = {}
        for key in keys:
            new = (key, key % 1000 + 1, NEW, f"changed {self.now}")
            net[(key,)] = NetRow(images, (key, key % 1000, OLD, "was") if images else None, new)
        before = contents(self.store, self.relation, self.now)
        after = self.now
        self._commit(net)
        changed = changed_files(self.relation, listing(self.store, self.relation), after, self.now)
        self._require(self.table.changes(changed, before), len(net))

    def _require(self, changes: DataFrame, expected: int) -> None:
        """Consume the changes whole; a figure of a wrong answer is worth nothing."""
        row = changes.agg(
            F.count("*").alias("n"),
            F.count("old.note").alias("olds"),
            F.sum(F.length("old.note")),
            F.sum("old.amount"),
            F.sum("new.amount"),
        ).collect()[0]
        assert row["n"] == row["olds"] == expected, (row, expected)

    def _commit(self, net: Net | None) -> None:
        attempt = open_attempt(
            self.store, self.term.graph, self.term.term, f"{self.relation.path}/_attempts"
        )
        epoch, files = Epoch(self.now + STEP), []
        if net:
            path = f"{attempt.directory}/log.parquet"
            size = self.lake.write(path, log_table(net, SCHEMA, vnode_count=4, epoch=epoch))
            unknown = sum(not row.known for row in net.values())
            ranges = ranges_of((key[0] for key in net), INT8)
            files = [
                StagedFile(
                    self.relation.id, attempt.id, "log", path, len(net), size, unknown, ranges
                )
            ]
        commit = EpochCommit(self.term.graph, self.term.term, self.now, epoch, (attempt.id,), files)
        commit_epoch(self.store, commit, failpoint=unarmed, name="tick")
        self.now = epoch

    def _merge(self, keys: list[int]) -> None:
        path = f"{self.place.pipeline}/changes/{time.monotonic_ns()}.parquet"
        rows = [{"id": k, "region": k % 1000 + 1, "amount": NEW, "note": "changed"} for k in keys]
        self.lake.write(path, pa.Table.from_pylist(rows, arrow_schema(SCHEMA.columns)))
        changes = self.spark.read.parquet(self.lake.uri(path))
        changes.createOrReplaceTempView("bench_changes")
        self.spark.sql(
            f"MERGE INTO delta.`{self.peer}` AS t USING bench_changes AS c ON t.id = c.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def _fold(self) -> None:
        graph = maintenance_graph(self.place.pipeline, "t")
        term = acquire(self.store, graph, owner="bench", seconds=0)
        session = new_session(self.spark)
        try:
            Folder(self.store, self.lake, session, self.deployment.delta, unarmed, term, 0.0).fold(
                self.relation, self.now
            )
        finally:
            release_session(session)

    def _timed(self, work: Any) -> tuple[float, float]:
        """Return the seconds it takes and the megabytes that Spark's process reads."""
        before, started = _read_bytes(), time.monotonic()
        work()
        took = time.monotonic() - started
        return took, (_read_bytes() - before) / 1e6


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _read_bytes() -> int:
    """Return what Spark's process has read so far, from files and elsewhere."""
    gateway = SparkContext._gateway
    assert gateway is not None
    text = Path(f"/proc/{gateway.proc.pid}/io").read_text()
    return int(text.split("rchar:")[1].split()[0])


def _how(case: Case) -> str:
    return "with before images" if case.images else "with look-ups"


def _report(console: Console, figures: dict[str, Any]) -> None:
    table = Table(title=f"{CHANGES:,} changes per tick; medians of {ROUNDS}")
    for column in ("keys", "", "", "tick", "read", "Delta MERGE", "read", "ratio"):
        table.add_column(column, justify="right")
    for c in figures["cases"]:
        table.add_row(
            f"{c.keys:,}",
            c.spread,
            _how(c),
            f"{statistics.median(c.ticks):.2f} s",
            f"{statistics.median(c.tick_mb):.0f} MB",
            f"{statistics.median(c.merges):.2f} s",
            f"{statistics.median(c.merge_mb):.0f} MB",
            f"{c.ratio:.1f}×",
        )
    console.print(table)
    for name, found in figures.items():
        if isinstance(found, dict):
            console.print(f"{name}: {found}")
