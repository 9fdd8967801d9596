"""Bring a view from one epoch to a later one, and stage the files that say so.

    small range     one Spark job; its result comes back as Arrow and is cut into two log files
    large range     the result is kept in Spark and written twice

The choice follows the number of input rows, which bounds the number of touched groups.

Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ops.aggregate.hash_agg import HashAggExecutor
from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.errors import NegativeRowCount
from ops.common.ports import Failpoint, Lake
from ops.common.schema import quote
from ops.common.table.log import DELETE, UPSERT
from ops.common.table.relation import Contents, DataFile, Relation, StagedFile
from ops.common.table.staging import keep_written
from ops.common.table.state_table import StateTable
from ops.planner.plan import ROW_COUNT, BoundView

COLLECTED_ROWS = 200_000
"""Up to this many input rows the touched groups are brought to the driver."""


@dataclass(frozen=True)
class ViewExecutor:
    view: BoundView
    output: Relation
    state: Relation
    upstream: Relation
    spark: SparkSession
    lake: Lake
    failpoint: Failpoint

    def apply(
        self,
        files: Sequence[DataFile | StagedFile],
        *,
        before: Contents,
        states: Contents,
        attempt: Attempt,
        after: Epoch,
        epoch: Epoch,
    ) -> list[StagedFile]:
        """Stage what the upstream's log `files`, which cover (after, epoch], do to the view."""
        rows = sum(f.rows for f in files)
        truncated = any(f.truncates for f in files)
        if rows == 0 and not truncated:
            return []
        changes = StateTable(self.spark, self.lake, self.upstream).changes(files, before)
        touched = HashAggExecutor(self.view).run(changes, self._states(states))
        # How many rows a TRUNCATE has taken away is in no file's count.
        if rows <= COLLECTED_ROWS and not truncated:
            return self._stage_arrow(touched, attempt, after=after, epoch=epoch)
        return self._stage_spark(touched, attempt, after=after, epoch=epoch)

    def apply_snapshot(
        self,
        rows: DataFrame,
        *,
        states: Contents,
        attempt: Attempt,
        after: Epoch,
        epoch: Epoch,
    ) -> list[StagedFile]:
        """Stage what `rows`, all of them new, add to the states; outputs follow at the end."""
        agg = HashAggExecutor(self.view)
        touched = agg.compare(agg.merge(agg.fold_rows(rows), self._states(states)))
        state = self._log_frame(touched, "state", epoch)
        return self._write(state, self.state, attempt, kind="log", after=after)

    def stage_output(self, *, states: Contents, attempt: Attempt) -> list[StagedFile]:
        """Stage the view's rows as its states have them: the snapshot of its output."""
        agg = HashAggExecutor(self.view)
        named = self._states(states).select(
            F.struct(*(quote(n) for n in self.view.state.names)).alias("state_new")
        )
        rows = named.select(agg.output_row("state_new").alias("row")).select("row.*")
        return self._write(rows, self.output, attempt, kind="snapshot", after=None)

    def _states(self, states: Contents) -> DataFrame:
        return StateTable(self.spark, self.lake, self.state).read(states)

    def _stage_arrow(
        self, touched: DataFrame, attempt: Attempt, *, after: Epoch, epoch: Epoch
    ) -> list[StagedFile]:
        moved = touched.select(
            "*",
            (~F.col("state_old").eqNullSafe(F.col("state_new"))).alias("state_moved"),
            (~F.col("out_old").eqNullSafe(F.col("out_new"))).alias("out_moved"),
        )
        # The one job of this view and range.
        table = moved.toArrow()
        self._require_no_negative_group(table, epoch)
        staged = []
        for relation, part in ((self.state, "state"), (self.output, "out")):
            log = _cut(table, part, epoch)
            if log.num_rows == 0:
                continue
            path = f"{attempt.directory}/{relation.name}-log.parquet"
            self.failpoint("view.before_log_write")
            size = self.lake.write(path, log)
            self.failpoint("view.after_log_write")
            staged.append(
                StagedFile(relation.id, attempt.id, "log", path, log.num_rows, size, after=after)
            )
        return staged

    def _stage_spark(
        self, touched: DataFrame, attempt: Attempt, *, after: Epoch, epoch: Epoch
    ) -> list[StagedFile]:
        kept = touched.persist()
        try:
            negative = kept.where(F.col(f"state_new.{ROW_COUNT}") < 0).limit(1)
            self._require_no_negative_group(negative.toArrow(), epoch)
            return [
                *self._write(
                    self._log_frame(kept, "state", epoch),
                    self.state,
                    attempt,
                    kind="log",
                    after=after,
                ),
                *self._write(
                    self._log_frame(kept, "out", epoch),
                    self.output,
                    attempt,
                    kind="log",
                    after=after,
                ),
            ]
        finally:
            kept.unpersist()

    def _log_frame(self, touched: DataFrame, part: str, epoch: Epoch) -> DataFrame:
        old, new = F.col(f"{part}_old"), F.col(f"{part}_new")
        return touched.where(~old.eqNullSafe(new)).select(
            "vnode",
            F.lit(epoch).cast("bigint").alias("epoch"),
            F.when(new.isNull(), F.lit(DELETE)).otherwise(F.lit(UPSERT)).alias("op"),
            F.lit(True).alias("known"),
            "key",
            new.alias("new"),
            old.alias("old"),
        )

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

    def _require_no_negative_group(self, touched: pa.Table, epoch: Epoch) -> None:
        states = touched.column("state_new").combine_chunks()
        if len(states) == 0:
            return
        counts = pc.struct_field(states, ROW_COUNT)
        negative = pc.indices_nonzero(pc.fill_null(pc.less(counts, 0), False))
        if len(negative):
            first = negative[0].as_py()
            group = tuple(touched.column("key")[first].as_py().values())
            count = counts[first].as_py()
            raise NegativeRowCount(view=self.view.plan.name, group=group, count=count, epoch=epoch)


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
