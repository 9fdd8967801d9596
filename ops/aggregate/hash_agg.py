"""Grouped aggregation over net changes, one range of epochs at a time.

    changes --rows--> signed rows --count--> entries that come and go     (DISTINCT, min, max)
            --fold--> delta per group --merge--> states --compare--> state and output changes

States are read as of the epoch before the range. What comes out is one frame for the groups and
one for each entries table, a row per touched key:

    groups   | vnode | key | state_old | state_new | out_old | out_new |
    entries  | vnode | key | state_old | state_new |

from which the log files are cut. An attempt cut short is run again whole.

An aggregate without GROUP BY (SimpleAgg) is the same with one group whose key is a constant; it
shows a row even when it has none.

Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ops.aggregate.agg_sql import (
    contributions,
    merged,
    named_struct,
    result,
    state_field,
    storage_columns,
    zero_state,
)
from ops.common.columns import key_struct, same_key, vnode_column
from ops.common.schema import quote, struct_ddl
from ops.planner.agg_state import best_name
from ops.planner.expr import Expr
from ops.planner.expr_spark import Column as ColumnText
from ops.planner.expr_spark import to_spark
from ops.planner.plan_view import (
    ENTRY_COUNT,
    ROW_COUNT,
    VALUE,
    AggCall,
    AggKind,
    AggView,
    Entries,
    Strategy,
    needs_entries,
)

SIGN, ROWS = "_tg_sign", "_tg_row_sign"


@dataclass(frozen=True)
class HashAggExecutor:
    view: AggView

    def rows(self, changes: DataFrame) -> DataFrame:
        """Return the rows that came (sign 1) or went (-1): group key, what calls take of each."""
        minus = F.struct(F.lit(-1).alias("sign"), F.col("old").alias("row"))
        plus = F.struct(F.lit(1).alias("sign"), F.col("new").alias("row"))
        halves = changes.select(F.explode(F.array(minus, plus)).alias("half"))
        present = halves.where("half.row IS NOT NULL")
        return self._taken(present, lambda name: f"half.row.{quote(name)}", "half.sign")

    def inserted(self, rows: DataFrame) -> DataFrame:
        """The same for plain rows, each an insert: what a snapshot adds."""
        return self._taken(rows, quote, "1")

    def entry_changes(self, rows: DataFrame, number: int, before: DataFrame) -> DataFrame:
        """Return the touched entries of one table; `before` are its rows before the range."""
        entries = self.view.entries[number]
        key_columns = entries.schema.key_columns
        value = f"e{number}"
        moved = (
            rows.where(f"{value} IS NOT NULL")
            .groupBy("key", value)
            .agg(F.sum(SIGN).alias("moved"))
            .where("moved <> 0")
        )
        keyed = moved.select(
            F.struct(
                *(F.col(f"key.{quote(k)}") for k in self.view.state.key), F.col(value).alias(VALUE)
            ).alias("key"),
            "moved",
        )
        known = before.select(
            key_struct(key_columns).alias("known"), F.col(ENTRY_COUNT).alias("counted")
        )
        joined = keyed.join(known, on=same_key("key", "known", key_columns), how="left")
        vnode = vnode_column(key_columns, self.view.plan.vnode_count, path="key")
        return joined.select(
            vnode.alias("vnode"),
            "key",
            self._entry(entries, "counted", "counted IS NOT NULL").alias("state_old"),
            self._entry(
                entries, "coalesce(counted, 0) + moved", "coalesce(counted, 0) + moved <> 0"
            ).alias("state_new"),
        )

    def run(
        self,
        rows: DataFrame,
        states: DataFrame,
        touched: Sequence[DataFrame] = (),
        entries: Sequence[DataFrame] = (),
    ) -> DataFrame:
        """Return the groups' frame, given what `entry_changes` gave and the entries before."""
        return self.compare(self.merge(self.fold(rows, touched), states, touched, entries))

    def fold(self, rows: DataFrame, touched: Sequence[DataFrame]) -> DataFrame:
        """Return one row per touched group: its key, and what the changes add to each state."""
        both = rows.withColumn(ROWS, F.col(SIGN))
        for number, frame in enumerate(touched):
            both = both.unionByName(self._coming_and_going(frame, number), allowMissingColumns=True)
        sums = {ROW_COUNT: f"CAST(sum({ROWS}) AS BIGINT)"}
        for number, call in enumerate(self.view.calls):
            sums |= contributions(call, self._value_of(call, number), SIGN)
        for call in self._extremes():
            n = self.view.entries_of(call)
            pick = "min" if call.kind is AggKind.MIN else "max"
            for word, sign in (("in", "> 0"), ("out", "< 0")):
                sums[f"{word}_{best_name(call.output)}"] = (
                    f"{pick}(CASE WHEN {SIGN} {sign} THEN x{n} END)"
                )
        grouped = both.groupBy("key").agg(*(F.expr(s).alias(n) for n, s in sums.items()))
        return grouped.select("key", F.struct(*(quote(name) for name in sums)).alias("delta"))

    def merge(
        self,
        delta: DataFrame,
        states: DataFrame,
        touched: Sequence[DataFrame] = (),
        entries: Sequence[DataFrame] = (),
    ) -> DataFrame:
        """Return `key`, the state before (NULL if there was none) and the state after."""
        key_columns = self.view.state.key_columns
        before = states.select(
            key_struct(key_columns).alias("known"),
            F.struct(*(quote(n) for n in self.view.state.names)).alias("state_old"),
        )
        joined = delta.join(before, on=same_key("key", "known", key_columns), how="left").drop(
            "known"
        )
        for number, call in enumerate(self._extremes()):
            joined = self._with_best(joined, call, f"best{number}", touched, entries)
        best = {best_name(c.output): f"best{n}" for n, c in enumerate(self._extremes())}
        fields = [f"key.{quote(c.name)} AS {quote(c.name)}" for c in key_columns]
        for column in storage_columns(self.view):
            after = best.get(column.name) or f"delta.{quote(column.name)}"
            text = merged(column, f"state_old.{quote(column.name)}", after)
            fields.append(f"{text} AS {quote(column.name)}")
        summed = F.expr(f"struct({', '.join(fields)})")
        return joined.select("key", "state_old", summed.alias("summed"))

    def compare(self, merged_states: DataFrame) -> DataFrame:
        """Return the frame of the module's docstring; a group with no rows left has no state."""
        # With fields that may be NULL: Arrow refuses an absent struct whose fields may not.
        summed = F.col("summed").cast(struct_ddl(self.view.state.columns))
        moved = merged_states.select(
            vnode_column(self.view.state.key_columns, self.view.plan.vnode_count, path="key").alias(
                "vnode"
            ),
            "key",
            "state_old",
            F.when(F.expr(f"summed.{ROW_COUNT} <> 0"), summed).alias("state_new"),
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
        if self.view.strategy is Strategy.ALWAYS_OUTPUT:
            zero = f"CAST({zero_state(self.view)} AS {struct_ddl(self.view.state.columns)})"
            state = f"coalesce({state}, {zero})"
        field = state_field(f"({state})")
        made = {c.output: result(c, field) for c in self.view.calls}

        def column(name: str) -> str:
            return f"({made[name]})" if name in made else field(name)

        texts = {c.name: to_spark(c.expr, column) for c in self.view.columns}
        shown = f"{state} IS NOT NULL"
        if self.view.having is not None:
            shown = f"{shown} AND ({to_spark(self.view.having, column)}) IS TRUE"
        row = named_struct(self.view.output, lambda name: texts[name])
        return F.expr(f"CASE WHEN {shown} THEN {row} END")

    def _taken(self, rows: DataFrame, column: ColumnText, sign: str) -> DataFrame:
        if self.view.where is not None:
            rows = rows.where(F.expr(f"({to_spark(self.view.where, column)}) IS TRUE"))
        keys = [f"{to_spark(k.expr, column)} AS {quote(k.name)}" for k in self.view.keys]
        chosen = [F.expr(f"struct({', '.join(keys)})").alias("key"), F.expr(sign).alias(SIGN)]
        for number, call in enumerate(self.view.calls):
            if not needs_entries(call):
                chosen.append(
                    F.expr(_argument(call.argument, call.filter, column)).alias(f"a{number}")
                )
        for number, entries in enumerate(self.view.entries):
            text = _argument(entries.argument, entries.filter, column)
            chosen.append(F.expr(text).alias(f"e{number}"))
        return rows.select(*chosen)

    def _value_of(self, call: AggCall, number: int) -> str:
        return f"x{self.view.entries_of(call)}" if needs_entries(call) else f"a{number}"

    def _extremes(self) -> list[AggCall]:
        return [c for c in self.view.calls if c.kind in (AggKind.MIN, AggKind.MAX)]

    def _entry(self, entries: Entries, count: str, when: str) -> Column:
        row = named_struct(
            entries.schema, lambda name: count if name == ENTRY_COUNT else f"key.{quote(name)}"
        )
        return F.expr(f"CASE WHEN {when} THEN {row} END")

    def _coming_and_going(self, touched: DataFrame, number: int) -> DataFrame:
        """Return each value that was not there and is (1), or was and is not (-1)."""
        came = "state_old IS NULL AND state_new IS NOT NULL"
        went = "state_old IS NOT NULL AND state_new IS NULL"
        return touched.where(f"({came}) OR ({went})").select(
            F.struct(*(F.col(f"key.{quote(k)}") for k in self.view.state.key)).alias("key"),
            F.expr(f"IF({came}, 1, -1)").alias(SIGN),
            F.lit(0).alias(ROWS),
            F.col(f"key.{VALUE}").alias(f"x{number}"),
        )

    def _with_best(
        self,
        joined: DataFrame,
        call: AggCall,
        name: str,
        touched: Sequence[DataFrame],
        entries: Sequence[DataFrame],
    ) -> DataFrame:
        """Add the least (greatest) value: of the old best and what came, unless the best went."""
        n, best = self.view.entries_of(call), best_name(call.output)
        old, came = f"state_old.{quote(best)}", f"delta.{quote('in_' + best)}"
        gone = f"(delta.{quote('out_' + best)} = {old}) IS TRUE"
        key_columns = self.view.state.key_columns
        lost = joined.where(gone).select(F.col("key").alias("lost"))
        group = F.struct(*(quote(k) for k in self.view.state.key)).alias("group")
        pairs = entries[n].select(group, quote(VALUE))
        left = pairs.join(
            F.broadcast(lost), on=same_key("group", "lost", key_columns), how="left_semi"
        )
        named = touched[n].select(
            F.struct(*(F.col(f"key.{quote(k)}") for k in self.view.state.key)).alias("named"),
            F.col(f"key.{VALUE}").alias("named_value"),
            "state_new",
        )
        same = same_key("group", "named", key_columns) & (F.col(VALUE) == F.col("named_value"))
        left = left.join(F.broadcast(named), on=same, how="left_anti")
        here = named.where("state_new IS NOT NULL").select(
            F.col("named").alias("group"), F.col("named_value").alias(VALUE)
        )
        pick = "min" if call.kind is AggKind.MIN else "max"
        found = (
            left.unionByName(here)
            .groupBy("group")
            .agg(F.expr(f"{pick}({VALUE})").alias(f"{name}_left"))
        )
        wider = "least" if call.kind is AggKind.MIN else "greatest"
        value = f"CASE WHEN {gone} THEN {name}_left ELSE {wider}({old}, {came}) END"
        again = joined.join(found, on=same_key("key", "group", key_columns), how="left")
        return again.withColumn(name, F.expr(value)).drop("group", f"{name}_left")


def _argument(argument: Expr | None, condition: Expr | None, column: ColumnText) -> str:
    """Return what a call takes of a row; NULL where the row does not count."""
    value = "TRUE" if argument is None else to_spark(argument, column)
    if condition is None:
        return value
    return f"CASE WHEN {to_spark(condition, column)} THEN {value} END"
