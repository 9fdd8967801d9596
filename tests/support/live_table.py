"""A relation with real files and a real control store, beside its history as dictionaries."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import Term, acquire
from ops.common.arrow import arrow_schema
from ops.common.barrier import Attempt
from ops.common.change import Row
from ops.common.epoch import ZERO, Epoch
from ops.common.errors import EpochGone
from ops.common.ports import Failpoint
from ops.common.schema import Schema, quote
from ops.common.table.fold import Folder
from ops.common.table.key_range import ranges_of
from ops.common.table.log import log_table
from ops.common.table.merge import LogMerger
from ops.common.table.net import Key, Net, net_changes
from ops.common.table.relation import (
    Base,
    Contents,
    DataFile,
    Listing,
    Relation,
    StagedFile,
    changed_files,
    contents,
    listing,
)
from ops.common.table.small_changes import Reach
from ops.common.table.state_table import StateTable
from ops.planner.apply import maintenance_graph
from resources.delta import Delta
from resources.lake import Lake
from resources.spark import close_session, new_session
from tests.support.control import Place
from tests.support.model import Rows, Wish, happen, key_of

numbers = itertools.count()
STEP = 1 << 16
FIRST = 1_000_000 * STEP
"""Real epochs are far from 0; the waves of a view's snapshot are labelled below them."""
REACHES = (Reach(), Reach(rows=0), Reach(handed_rows=0))
"""Small logs handed to Spark, all left to Spark, larger logs read from their files."""
folding: dict[int, SparkSession] = {}
"""The folding session beside each session; `close_folding` ends them."""
Moved = dict[Key, tuple[Row | None, Row | None]]


def pass_by(_: str) -> None:
    """A failpoint at which nothing happens."""


@dataclass
class LiveTable:
    """`history` holds the rows as of each committed epoch."""

    place: Place
    lake: Lake
    spark: SparkSession
    relation: Relation
    term: Term
    history: dict[int, Rows] = field(default_factory=dict)
    keep_s: float = 3600.0

    @staticmethod
    def create(
        place: Place, lake: Lake, spark: SparkSession, schema: Schema, *, graph: str | None = None
    ) -> "LiveTable":
        """Make a table whose epochs are committed by `graph`, or by one of its own."""
        # Tables of ten rows: compiling a plan costs more here than running it.
        spark.conf.set("spark.sql.shuffle.partitions", "1")
        spark.conf.set("spark.sql.codegen.wholeStage", "false")
        relation = place.create(f"t{next(numbers)}", schema)
        term = acquire(place.store, graph or relation.graph, owner="test", seconds=600)
        return LiveTable(place, lake, spark, relation, term, {0: {}})

    @property
    def now(self) -> Epoch:
        return Epoch(max(self.history))

    @property
    def next(self) -> Epoch:
        return Epoch(max(self.now, FIRST) + STEP)

    @property
    def table(self) -> StateTable:
        return self.in_way(0)

    def in_way(self, number: int) -> StateTable:
        """Return the table, read in one of the ways that must not differ, in turn."""
        reach = REACHES[number % len(REACHES)]
        return StateTable(self.spark, self.lake, self.relation, reach)

    def attempt(self) -> Attempt:
        parent = f"{self.relation.path}/_attempts"
        return open_attempt(self.place.store, self.term.graph, self.term.term, parent)

    def put_snapshot(self, rows: Rows, *, files: int = 1) -> None:
        """Commit rows as a backfill does; what was committed as log before supersedes them."""
        attempt = self.attempt()
        staged = []
        for number in range(files):
            part = list(rows.values())[number::files]
            path = f"{attempt.directory}/page-{number}.parquet"
            size = self.lake.write(path, rows_table(part, self.relation.schema))
            staged.append(
                StagedFile(self.relation.id, attempt.id, "snapshot", path, len(part), size)
            )
        self.commit_files(attempt, staged)
        self.history[self.now] = {**rows, **self.history[self.now]}

    def commit(self, wanted: list[Wish]) -> Epoch:
        changes, after = happen(self.history[self.now], wanted)
        return self.commit_net(net_changes(changes, key_of(self.relation.schema)), after)

    def commit_net(self, net: Net, after: Rows) -> Epoch:
        attempt, epoch = self.attempt(), self.next
        staged = []
        if net:
            path = f"{attempt.directory}/log.parquet"
            count = self.relation.vnode_count
            table = log_table(net, self.relation.schema, vnode_count=count, epoch=epoch)
            size = self.lake.write(path, table)
            unknown = sum(not row.known for row in net.values())
            first = self.relation.schema.key_columns[0]
            ranges = ranges_of((key[0] for key in net), first.type)
            staged = [
                StagedFile(
                    self.relation.id, attempt.id, "log", path, len(net), size, unknown, ranges
                )
            ]
        self.commit_files(attempt, staged)
        self.history[epoch] = after
        return epoch

    def commit_files(self, attempt: Attempt, staged: list[StagedFile]) -> None:
        epoch = self.next
        commit = EpochCommit(
            self.term.graph, self.term.term, self.now, epoch, (attempt.id,), staged
        )
        commit_epoch(self.place.store, commit, failpoint=pass_by, name="tick")
        self.history[epoch] = self.history[self.now]

    def pin(self, epoch: Epoch, owner: str = "reader") -> None:
        self.place.store.execute("upsert_pin", relation=self.relation.id, owner=owner, epoch=epoch)

    def merge(self, failpoint: Failpoint = pass_by) -> int:
        merger = LogMerger(
            self.place.store, self.lake, self.spark, failpoint, self.term.graph, self.term.term
        )
        return merger.merge_if_many(self.relation, limit=1)

    def folder(self, failpoint: Failpoint = pass_by) -> Folder:
        """A folder with a new term; any folder made before is a zombie from here on."""
        graph = maintenance_graph(self.place.pipeline, self.relation.name)
        self.place.store.execute("take_over_lease", graph=graph, owner="other")
        term = acquire(self.place.store, graph, owner="folder", seconds=600)
        delta = Delta(self.lake)
        store, keep_s = self.place.store, self.keep_s
        return Folder(store, self.lake, self._folding(), delta, failpoint, term, keep_s)

    def fold(self, failpoint: Failpoint = pass_by) -> Base | None:
        """Fold to the newest epoch, pinned meanwhile, as `fold_point` does."""
        self.pin(self.now, owner="fold")
        try:
            return self.folder(failpoint).fold(self.relation, self.now)
        finally:
            self.place.store.execute("delete_pin", relation=self.relation.id, owner="fold")

    def contents(self, epoch: int) -> Contents:
        return contents(self.place.store, self.relation, Epoch(epoch))

    def files(self) -> list[DataFile]:
        return list(self.listing().files)

    def listing(self) -> Listing:
        return listing(self.place.store, self.relation)

    def readable(self) -> dict[int, Contents]:
        """Return the contents of every epoch of the history that can still be read."""
        found = {}
        for epoch in self.history:
            try:
                if epoch:
                    found[epoch] = self.contents(epoch)
            except EpochGone:
                assert epoch != self.now
        return found

    def read(self, *epochs: int) -> dict[int, Rows]:
        """Return the rows as of several epochs, in one job; a key twice is an error."""
        chosen = {e: c for e, c in self.readable().items() if not epochs or e in epochs}
        whole = F.struct(*(F.col(quote(n)) for n in self.relation.schema.names))
        frames = [
            self.in_way(n).read(c).select(F.lit(epoch).alias("at"), whole.alias("row"))
            for n, (epoch, c) in enumerate(chosen.items())
        ]
        return self._by_epoch(frames, list(chosen))

    def opened(self, whole: Contents) -> Rows:
        """Return the rows of contents that somebody has looked up before, in each way to read."""
        found = []
        for number in range(len(REACHES)):
            lines = self.in_way(number).read(whole).toArrow().to_pylist()
            rows = [row for line in lines if (row := values(line)) is not None]
            found.append({key_of(self.relation.schema)(row): row for row in rows})
            assert len(found[-1]) == len(rows), "a key twice"
        assert found[0] == found[1] == found[2]
        return found[0]

    def lookup(self, keys: list[Key], *epochs: int) -> dict[int, Rows]:
        schema = pa.struct(list(arrow_schema(self.relation.schema.key_columns)))
        names = self.relation.schema.key
        wanted = pa.table(
            {"key": pa.array([dict(zip(names, k, strict=True)) for k in keys], schema)}
        )
        frame = self.spark.createDataFrame(wanted)
        chosen = {e: c for e, c in self.readable().items() if not epochs or e in epochs}
        frames = [
            self.table.lookup(c, frame).select(F.lit(epoch).alias("at"), "row")
            for epoch, c in chosen.items()
        ]
        return self._by_epoch(frames, list(chosen))

    def changes(self, *ranges: tuple[int, int]) -> dict[tuple[int, int], Moved]:
        """Return key -> (old, new) of each range, in one job; gone ranges are left out."""
        frames, found = [], {}
        for number, (after, upto) in enumerate(ranges):
            try:
                before = self.contents(after) if after else self._nothing()
                files = changed_files(self.relation, self.listing(), Epoch(after), Epoch(upto))
            except EpochGone:
                continue
            found[after, upto] = {}
            if files:
                net = self.in_way(number).changes(files, before)
                tags = (F.lit(after).alias("after"), F.lit(upto).alias("upto"))
                frames.append(net.select(*tags, "key", "old", "new"))
        for line in _union(frames):
            key = values(line["key"])
            moved = found[line["after"], line["upto"]]
            assert key is not None and key not in moved
            moved[key] = (values(line["old"]), values(line["new"]))
        return found

    def _folding(self) -> SparkSession:
        """Folding sets what it stamps its commits with: it has a session of its own."""
        if id(self.spark) not in folding:
            folding[id(self.spark)] = new_session(self.spark)
        return folding[id(self.spark)]

    def _nothing(self) -> Contents:
        return Contents(self.relation, ZERO, None, (), ())

    def _by_epoch(self, frames: list[DataFrame], epochs: list[int]) -> dict[int, Rows]:
        found: dict[int, Rows] = {epoch: {} for epoch in epochs}
        key = key_of(self.relation.schema)
        for line in _union(frames):
            row = values(line["row"])
            assert row is not None and key(row) not in found[line["at"]], "a key twice"
            found[line["at"]][key(row)] = row
        return found


def close_folding() -> None:
    while folding:
        close_session(folding.popitem()[1])


def rows_table(rows: list[Row], schema: Schema) -> pa.Table:
    names = schema.names
    listed = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.Table.from_pylist(listed, schema=arrow_schema(schema.columns))


def values(struct: dict[str, Any] | None) -> Row | None:
    return None if struct is None else tuple(struct.values())


def _union(frames: list[DataFrame]) -> list[dict[str, Any]]:
    if not frames:
        return []
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return list(whole.toArrow().to_pylist())
