"""Bring a view from one epoch to a later one, and stage the files that say so.

    small range     one Spark job, and one for each entries table; the result comes back as Arrow
                    and is cut into log files
    large range     the result is kept in Spark and written table by table

The choice follows the number of input rows, which bounds the number of touched groups.

Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ops.aggregate.hash_agg import HashAggExecutor
from ops.aggregate.project import ProjectExecutor
from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.errors import NegativeRowCount
from ops.common.ports import Failpoint, Lake
from ops.common.schema import quote
from ops.common.table.log import DELETE, UPSERT
from ops.common.table.relation import Contents, DataFile, Relation, StagedFile
from ops.common.table.staging import keep_written
from ops.common.table.state_table import StateTable
from ops.planner.plan_view import (
    ENTRY_COUNT,
    ROW_COUNT,
    BoundView,
    ProjectView,
    Strategy,
)

COLLECTED_ROWS = 200_000
"""Up to this many input rows the touched groups are brought to the driver."""

States = Mapping[int, Contents]
"""What each of a view's state tables is made of, by the relation's number."""


@dataclass(frozen=True)
class _Part:
    """A frame of touched keys and which of its columns are the log of which relation."""

    frame: DataFrame
    logs: tuple[tuple[Relation, str], ...]
    counted: str | None
    """The column of the state that must never be negative."""


@dataclass(frozen=True)
class ViewExecutor:
    """`states` are the intermediate table and then the entries tables; none for a projection."""

    view: BoundView
    output: Relation
    states: tuple[Relation, ...]
    upstream: Relation
    spark: SparkSession
    lake: Lake
    failpoint: Failpoint

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self.output, *self.states)

    def apply(
        self,
        files: Sequence[DataFile | StagedFile],
        *,
        before: Contents,
        states: States,
        attempt: Attempt,
        after: Epoch,
        epoch: Epoch,
    ) -> list[StagedFile]:
        """Stage what the upstream's log `files`, which cover (after, epoch], do to the view."""
        rows = sum(f.rows for f in files)
        if rows == 0:
            return []
        changes = StateTable(self.spark, self.lake, self.upstream).changes(files, before)
        with self._touched(changes, states, snapshot=False) as parts:
            if rows <= COLLECTED_ROWS:
                return self._stage_arrow(parts, attempt, after=after, epoch=epoch)
            return self._stage_spark(parts, attempt, after=after, epoch=epoch)

    def apply_snapshot(
        self,
        rows: DataFrame,
        *,
        states: States,
        attempt: Attempt,
        after: Epoch,
        epoch: Epoch,
    ) -> list[StagedFile]:
        """Stage what `rows`, all of them new, add to the states; outputs follow at the end.

        A view without states has its rows at once.
        """
        if isinstance(self.view, ProjectView):
            shown = ProjectExecutor(self.view).rows(rows)
            return self._write(shown, self.output, attempt, kind="snapshot", after=None)
        with self._touched(rows, states, snapshot=True) as parts:
            return [
                file
                for part in parts
                for relation, side in part.logs
                if relation in self.states
                for file in self._write_log(part, relation, side, attempt, after=after, epoch=epoch)
            ]

    def stage_output(self, *, states: States, attempt: Attempt) -> list[StagedFile]:
        """Stage the view's rows as its states have them: the snapshot of its output."""
        if isinstance(self.view, ProjectView):
            return []
        agg = HashAggExecutor(self.view)
        named = self._read(states, 0).select(
            F.struct(*(quote(n) for n in self.view.state.names)).alias("state_new")
        )
        if self.view.strategy is Strategy.ALWAYS_OUTPUT:
            one = self.spark.createDataFrame([(0,)], "one INT").select("one")
            named = one.join(named, how="left", on=F.lit(True))
        rows = named.select(agg.output_row("state_new").alias("row"))
        shown = rows.where("row IS NOT NULL").select("row.*")
        return self._write(shown, self.output, attempt, kind="snapshot", after=None)

    @contextmanager
    def _touched(self, rows: DataFrame, states: States, *, snapshot: bool) -> Iterator[list[_Part]]:
        """Give the frames of what `rows` touch: net changes, or the rows of a snapshot."""
        if isinstance(self.view, ProjectView):
            yield [_Part(ProjectExecutor(self.view).run(rows), ((self.output, "out"),), None)]
            return
        agg = HashAggExecutor(self.view)
        taken = agg.inserted(rows) if snapshot else agg.rows(rows)
        with ExitStack() as kept:
            if self.view.entries:
                # Read once for the entries and once for the groups.
                taken = _keep(kept, taken)
            entries = [self._read(states, n + 1) for n in range(len(self.view.entries))]
            moved = [
                _keep(kept, agg.entry_changes(taken, n, before)) for n, before in enumerate(entries)
            ]
            groups = agg.run(taken, self._read(states, 0), moved, entries)
            parts = [_Part(groups, ((self.states[0], "state"), (self.output, "out")), ROW_COUNT)]
            for frame, relation in zip(moved, self.states[1:], strict=True):
                parts.append(_Part(frame, ((relation, "state"),), ENTRY_COUNT))
            yield parts

    def _read(self, states: States, number: int) -> DataFrame:
        relation = self.states[number]
        return StateTable(self.spark, self.lake, relation).read(states[relation.id])

    def _stage_arrow(
        self, parts: list[_Part], attempt: Attempt, *, after: Epoch, epoch: Epoch
    ) -> list[StagedFile]:
        staged = []
        for part in parts:
            sides = [side for _, side in part.logs]
            moved = part.frame.select(
                "*",
                *(
                    (~F.col(f"{s}_old").eqNullSafe(F.col(f"{s}_new"))).alias(f"{s}_moved")
                    for s in sides
                ),
            )
            table = moved.toArrow()
            self._require_no_negative(table, part, epoch)
            for relation, side in part.logs:
                log = _cut(table, side, epoch)
                if log.num_rows == 0:
                    continue
                path = f"{attempt.directory}/{relation.name}-log.parquet"
                self.failpoint("view.before_log_write")
                size = self.lake.write(path, log)
                self.failpoint("view.after_log_write")
                staged.append(
                    StagedFile(
                        relation.id, attempt.id, "log", path, log.num_rows, size, after=after
                    )
                )
        return staged

    def _stage_spark(
        self, parts: list[_Part], attempt: Attempt, *, after: Epoch, epoch: Epoch
    ) -> list[StagedFile]:
        staged: list[StagedFile] = []
        with ExitStack() as kept:
            for part in parts:
                part = _Part(_keep(kept, part.frame), part.logs, part.counted)
                if part.counted is not None:
                    negative = part.frame.where(F.col(f"state_new.{part.counted}") < 0).limit(1)
                    self._require_no_negative(negative.toArrow(), part, epoch)
                for relation, side in part.logs:
                    staged += self._write_log(
                        part, relation, side, attempt, after=after, epoch=epoch
                    )
        return staged

    def _write_log(
        self,
        part: _Part,
        relation: Relation,
        side: str,
        attempt: Attempt,
        *,
        after: Epoch,
        epoch: Epoch,
    ) -> list[StagedFile]:
        frame = _log_frame(part.frame, side, epoch)
        return self._write(frame, relation, attempt, kind="log", after=after)

    def _write(
        self,
        rows: DataFrame,
        relation: Relation,
        attempt: Attempt,
        *,
        kind: str,
        after: Epoch | None,
    ) -> list[StagedFile]:
        """Write a frame as Parquet files and stage those that hold rows."""
        folder = f"{attempt.directory}/{relation.name}-{kind}"
        self.failpoint("view.before_log_write")
        rows.write.mode("overwrite").parquet(self.lake.uri(folder))
        self.failpoint("view.after_log_write")
        return [
            StagedFile(relation.id, attempt.id, kind, path, count, size, after=after)
            for path, count, size in keep_written(self.lake, folder, failpoint=self.failpoint)
        ]

    def _require_no_negative(self, table: pa.Table, part: _Part, epoch: Epoch) -> None:
        if part.counted is None or table.num_rows == 0:
            return
        counts = pc.struct_field(table.column("state_new").combine_chunks(), part.counted)
        negative = pc.indices_nonzero(pc.fill_null(pc.less(counts, 0), False))
        if len(negative):
            first = negative[0].as_py()
            group = tuple(table.column("key")[first].as_py().values())
            count = counts[first].as_py()
            raise NegativeRowCount(view=self.view.plan.name, group=group, count=count, epoch=epoch)


def _keep(stack: ExitStack, frame: DataFrame) -> DataFrame:
    kept = frame.persist()
    stack.callback(kept.unpersist)
    return kept


def _log_frame(touched: DataFrame, side: str, epoch: Epoch) -> DataFrame:
    old, new = F.col(f"{side}_old"), F.col(f"{side}_new")
    return touched.where(~old.eqNullSafe(new)).select(
        "vnode",
        F.lit(epoch).cast("bigint").alias("epoch"),
        F.when(new.isNull(), F.lit(DELETE)).otherwise(F.lit(UPSERT)).alias("op"),
        F.lit(True).alias("known"),
        "key",
        new.alias("new"),
        old.alias("old"),
    )


def _cut(table: pa.Table, part: str, epoch: Epoch) -> pa.Table:
    """Return the log rows of one of the two tables. Same columns as `log.log_table`."""
    moved = table.filter(table.column(f"{part}_moved"))
    new = moved.column(f"{part}_new")
    return pa.table(
        {
            "vnode": moved.column("vnode"),
            "epoch": pa.array([epoch] * moved.num_rows, pa.int64()),
            "op": pc.if_else(pc.is_null(new), DELETE, UPSERT),
            "known": pa.array([True] * moved.num_rows, pa.bool_()),
            "key": moved.column("key"),
            "new": new,
            "old": moved.column(f"{part}_old"),
        }
    )
