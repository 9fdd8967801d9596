"""Column twins of the law of holes: which value of a log row is whose.

    log of one key     hole  x  hole  hole      the newest value that was sent counts
    sent by none       the value of the row below: in the base, or as of the epoch before

Same law as `net.merge_net`. A hole keeps to its key: rows that changed theirs were filled before
they were written.

Spark.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ops.common.columns import field, same_key
from ops.common.schema import Schema
from ops.common.table.log import UPSERT, may_have_holes
from ops.common.table.relation import DataFile, StagedFile


def have_holes(files: Iterable[DataFile | StagedFile]) -> bool:
    return any(f.hole_rows for f in files)


def has_hole(holes: str, name: str) -> Column:
    return F.coalesce(F.array_contains(F.col(holes), name), F.lit(False))


def grouped(log: DataFrame, files: Sequence[DataFile | StagedFile], schema: Schema) -> DataFrame:
    """Return one row per key of `log`: its `first` and `last`, with `new` and `holes` of the last,
    filled by what was sent before."""
    first = F.min_by(F.struct("known", "old"), "epoch").alias("first")
    last = F.max_by(F.struct("vnode", "epoch", "op", "new", "holes"), "epoch").alias("last")
    by_key = log.groupBy("key")
    if have_holes(files):
        return _with_given(by_key.agg(first, last, *_newest_given(schema)), schema)
    return by_key.agg(first, last).select("*", "last.new", "last.holes")


def laid_over(rows: DataFrame, newest: DataFrame, schema: Schema, *, small: bool) -> DataFrame:
    """Return `rows` under the log's `newest`, of which those with holes are filled from `rows`."""
    is_row = F.col("op") == UPSERT
    is_partial = is_row & (F.coalesce(F.size("holes"), F.lit(0)) > 0)
    named = newest.select(
        F.col("key").alias("_tg_named"),
        F.when(is_partial, F.col("new")).alias("_tg_new"),
        F.col("holes").alias("_tg_holes"),
    )
    both = rows.join(
        F.broadcast(named) if small else named,
        on=same_key("", "_tg_named", schema.key_columns),
        how="left",
    )
    stays = F.col("_tg_named").isNull() | F.col("_tg_new").isNotNull()
    kept = both.where(stays).select(*(_under(name) for name in schema.names))
    whole = newest.where(is_row & ~is_partial)
    return kept.unionByName(whole.select(*(field("new", n).alias(n) for n in schema.names)))


def _under(name: str) -> Column:
    sent = F.col("_tg_new").isNotNull() & ~has_hole("_tg_holes", name)
    return F.when(sent, field("_tg_new", name)).otherwise(field("", name)).alias(name)


def _newest_given(schema: Schema) -> list[Column]:
    """Return, for a group-by over log rows of a key, what was last sent of each column."""
    is_row = F.col("op") == UPSERT
    return [
        F.max_by(
            F.struct(field("new", name).alias("value")),
            F.when(is_row & ~has_hole("holes", name), F.col("epoch")),
        ).alias(_given(schema, name))
        for name in may_have_holes(schema)
    ]


def _with_given(grouped: DataFrame, schema: Schema) -> DataFrame:
    """Return `grouped` with `new` and `holes`: one key's `last`, filled by what was sent before."""
    may = may_have_holes(schema)
    new = [
        F.when(has_hole("last.holes", c.name), F.col(f"{_given(schema, c.name)}.value"))
        .otherwise(field("last.new", c.name))
        .alias(c.name)
        if c.name in may
        else field("last.new", c.name).alias(c.name)
        for c in schema.columns
    ]
    left = F.array_compact(
        F.array(
            *(
                F.when(
                    has_hole("last.holes", name) & F.col(_given(schema, name)).isNull(), F.lit(name)
                )
                for name in may
            )
        )
    )
    return grouped.withColumns(
        {
            "new": F.when(F.col("last.new").isNotNull(), F.struct(*new)),
            "holes": F.when(F.size(left) > 0, left),
        }
    )


def filled(new: str, holes: str, below: str, schema: Schema) -> Column:
    """Return the row `new` with its holes taken from the row `below`; NULL where there is none."""
    may = may_have_holes(schema)
    values = [
        F.when(has_hole(holes, c.name), field(below, c.name))
        .otherwise(field(new, c.name))
        .alias(c.name)
        if c.name in may
        else field(new, c.name).alias(c.name)
        for c in schema.columns
    ]
    return F.when(F.col(new).isNotNull(), F.struct(*values))


def _given(schema: Schema, name: str) -> str:
    return f"_tg_given_{schema.names.index(name)}"
