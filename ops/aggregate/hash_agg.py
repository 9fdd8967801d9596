"""Grouped aggregation over net changes, one range of epochs at a time.

    changes --fold--> delta per group --merge--> states --compare--> state and output changes

States are read as of the epoch before the range. The executor returns one frame, a row per
touched group:

    | vnode | key | state_old | state_new | out_old | out_new |

from which the log files of both tables are cut. An attempt cut short is run again whole.

Spark.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ops.common.columns import field, key_struct, same_key, vnode_column
from ops.common.schema import Column as StateColumn
from ops.common.schema import DataType, Kind, quote, spark_type, struct_ddl
from ops.planner.plan import (
    ROW_COUNT,
    AggKind,
    BoundCall,
    BoundView,
    count_name,
    total_name,
)


@dataclass(frozen=True)
class HashAggExecutor:
    view: BoundView

    def run(self, changes: DataFrame, states: DataFrame) -> DataFrame:
        """Return the touched groups with their rows before and after `changes` (key, old, new)."""
        return self.compare(self.merge(self.fold(changes), states))

    def fold(self, changes: DataFrame) -> DataFrame:
        """Return one row per touched group: its key, and what the changes add to each state."""
        minus = F.struct(F.lit(-1).alias("sign"), F.col("old").alias("row"))
        plus = F.struct(F.lit(1).alias("sign"), F.col("new").alias("row"))
        halves = changes.select(F.explode(F.array(minus, plus)).alias("half")).select(
            "half.sign", "half.row"
        )
        return self._grouped(halves.where(F.col("row").isNotNull()), F.col("sign"), "row")

    def fold_rows(self, rows: DataFrame) -> DataFrame:
        """The same for plain rows, each an insert: what a snapshot adds."""
        return self._grouped(rows, F.lit(1), "")

    def merge(self, delta: DataFrame, states: DataFrame) -> DataFrame:
        """Return `key`, the state before (NULL if there was none) and the summed state."""
        key_columns = self.view.state.key_columns
        before = states.select(
            key_struct(key_columns).alias("known"),
            F.struct(*(quote(n) for n in self.view.state.names)).alias("state_old"),
        )
        joined = delta.join(before, on=same_key("key", "known", key_columns), how="left")
        summed = F.struct(
            *(field("key", c.name).alias(c.name) for c in key_columns),
            *(
                (F.coalesce(field("state_old", c.name), F.lit(0)) + field("delta", c.name))
                .cast(spark_type(c.type))
                .alias(c.name)
                for c in self._totals()
            ),
        )
        return joined.select("key", "state_old", summed.alias("summed"))

    def compare(self, merged: DataFrame) -> DataFrame:
        """Return the frame of the module's docstring; a group with no rows left is absent."""
        rows = field("summed", ROW_COUNT)
        # With fields that may be NULL: Arrow refuses an absent struct whose fields may not.
        summed = F.col("summed").cast(struct_ddl(self.view.state.columns))
        moved = merged.select(
            vnode_column(self.view.state.key_columns, self.view.plan.vnode_count, path="key").alias(
                "vnode"
            ),
            "key",
            "state_old",
            F.when(rows != 0, summed).alias("state_new"),
        )
        return moved.select(
            "vnode",
            "key",
            "state_old",
            "state_new",
            self.output_row("state_old").alias("out_old"),
            self.output_row("state_new").alias("out_new"),
        )

    def output_row(self, state: str) -> Column:
        """Return the visible row of a group's state. Same law as `agg_group.AggGroup.output`."""
        calls = {call.output: call for call in self.view.calls}
        columns = [
            (_result(calls[c.name], state) if c.name in calls else field(state, c.name))
            .cast(spark_type(c.type))
            .alias(c.name)
            for c in self.view.output.columns
        ]
        return F.when(F.col(state).isNotNull(), F.struct(*columns))

    def _totals(self) -> list[StateColumn]:
        key = set(self.view.state.key)
        return [c for c in self.view.state.columns if c.name not in key]

    def _grouped(self, rows: DataFrame, sign: Column, path: str) -> DataFrame:
        keys = [field(path, up).alias(name) for up, name in self.view.plan.keys]
        key_names = [quote(name) for _, name in self.view.plan.keys]
        sums: list[Column] = [F.sum(sign).cast("BIGINT").alias(ROW_COUNT)]
        for call in self.view.calls:
            sums.extend(_contributions(call, sign, path, self.view))
        # Keys are named as in the output, which may clash with a column an aggregate reads.
        grouped = rows.groupBy(*keys).agg(*sums)
        names = [c.name for c in self._totals()]
        return grouped.select(
            F.struct(*key_names).alias("key"), F.struct(*(quote(n) for n in names)).alias("delta")
        )


def _contributions(call: BoundCall, sign: Column, path: str, view: BoundView) -> list[Column]:
    total = view.state.column(total_name(call.output)).type
    if call.column is None:
        return [F.sum(sign).cast(spark_type(total)).alias(total_name(call.output))]
    value = field(path, call.column)
    present = F.sum(F.when(value.isNotNull(), sign).otherwise(0)).cast("BIGINT")
    if call.kind is AggKind.COUNT:
        return [present.cast(spark_type(total)).alias(total_name(call.output))]
    assert total.kind is Kind.NUMERIC
    # Wide enough that no partial sum of one range overflows; the total is checked by its cast.
    widest = spark_type(DataType(Kind.NUMERIC, 38, total.scale))
    wide = value.cast(widest)
    # Not `-wide`: Spark's unary minus rounds to 34 digits, its subtraction does not.
    signed = F.when(sign < 0, F.lit(0).cast(widest) - wide).otherwise(wide)
    return [
        F.coalesce(F.sum(signed), F.lit(0)).cast(spark_type(total)).alias(total_name(call.output)),
        present.alias(count_name(call.output)),
    ]


def _result(call: BoundCall, state: str) -> Column:
    total = field(state, total_name(call.output))
    if call.kind is AggKind.COUNT:
        return total
    return F.when(field(state, count_name(call.output)) != 0, total)
