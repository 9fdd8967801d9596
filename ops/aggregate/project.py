"""Rows of a view without aggregates: each is what one row of the upstream becomes, or nothing.

    changes   | key | old | new |   ->   | vnode | key | out_old | out_new |

There is no state: whether a row was shown follows from the row itself.

Spark.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ops.aggregate.agg_sql import named_struct
from ops.common.columns import vnode_column
from ops.common.schema import quote, struct_ddl
from ops.planner.expr_spark import Column as ColumnText
from ops.planner.expr_spark import to_spark
from ops.planner.plan_view import ProjectView


@dataclass(frozen=True)
class ProjectExecutor:
    view: ProjectView

    def run(self, changes: DataFrame) -> DataFrame:
        """Return the frame of the module's docstring: the rows that changed."""
        old, new = self._shown("old"), self._shown("new")
        moved = changes.select(old.alias("out_old"), new.alias("out_new"))
        key_columns = self.view.output.key_columns
        keys = (f"coalesce(out_new.{quote(c.name)}, out_old.{quote(c.name)})" for c in key_columns)
        named = (f"{text} AS {quote(c.name)}" for text, c in zip(keys, key_columns, strict=True))
        keyed = moved.where("NOT (out_old <=> out_new)").select(
            F.expr(f"struct({', '.join(named)})").alias("key"), "out_old", "out_new"
        )
        vnode = vnode_column(key_columns, self.view.plan.vnode_count, path="key")
        return keyed.select(vnode.alias("vnode"), "key", "out_old", "out_new")

    def rows(self, rows: DataFrame) -> DataFrame:
        """Return the view's rows of plain rows: what a snapshot shows."""
        made = rows.select(self._row(quote).alias("row"))
        return made.where("row IS NOT NULL").select("row.*")

    def _shown(self, side: str) -> Column:
        present = F.expr(f"{side} IS NOT NULL")
        return F.when(present, self._row(lambda name: f"{side}.{quote(name)}"))

    def _row(self, column: ColumnText) -> Column:
        texts = {c.name: to_spark(c.expr, column) for c in self.view.columns}
        row = named_struct(self.view.output, lambda name: texts[name])
        row = f"CAST({row} AS {struct_ddl(self.view.output.columns)})"
        if self.view.where is None:
            return F.expr(row)
        return F.expr(f"CASE WHEN {to_spark(self.view.where, column)} THEN {row} END")
