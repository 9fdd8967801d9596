"""The lake's side of a comparison: its checksums by key range, and the rows that differ.

Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ops.backfill.cdc.verify.canonical import spark_hash
from ops.backfill.cdc.verify.ranges import Key, KeyRange
from ops.common.columns import field, key_struct, same_key, vnode_column
from ops.common.schema import Schema, quote
from ops.common.table.log import DELETE, UPSERT
from ops.common.table.relation import Contents, DataFile
from ops.common.table.state_table import StateTable

SAMPLED_KEYS = 5000


@dataclass(frozen=True)
class LakeSide:
    """A table as of the pinned epoch."""

    table: StateTable
    contents: Contents

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def rows(self, within: KeyRange) -> DataFrame:
        found = self.table.read(self.contents)
        condition = _lies_in(self.schema, within)
        return found if condition is None else found.where(condition)

    def count(self, within: KeyRange) -> int:
        return self.rows(within).count()

    def sample(self, within: KeyRange, rows: int) -> list[Key]:
        """Return about SAMPLED_KEYS of the keys of so many rows, in order."""
        keys = self.rows(within).select(*(quote(name) for name in self.schema.key))
        every = max(rows // SAMPLED_KEYS, 1)
        if every > 1:
            chosen = F.xxhash64(*(quote(name) for name in self.schema.key)) % every == 0
            keys = keys.where(chosen)
        # A few thousand keys: the ranges are cut by the driver.
        found = keys.toArrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def checksums(self, ranges: Sequence[KeyRange]) -> list[tuple[int, int]]:
        """Return (rows, sum of hashes) of each of some ranges that follow one another."""
        whole = KeyRange(ranges[0].lower, ranges[-1].upper)
        hashed = self.rows(whole).select(
            place_column(self.schema, ranges).alias("place"),
            F.expr(spark_hash(self.schema.columns)).cast("decimal(38,0)").alias("hash"),
        )
        summed = hashed.groupBy("place").agg(F.count("*").alias("n"), F.sum("hash").alias("total"))
        # One small row per range.
        found = {row["place"]: row for row in summed.toArrow().to_pylist()}
        return [
            (found[i]["n"], int(found[i]["total"])) if i in found else (0, 0)
            for i in range(len(ranges))
        ]

    def among(self, ranges: Sequence[KeyRange], places: Sequence[int]) -> DataFrame:
        """Return the rows of the ranges at these places."""
        first, last = ranges[min(places)], ranges[max(places)]
        rows = self.rows(KeyRange(first.lower, last.upper))
        if len(places) == max(places) - min(places) + 1:
            return rows
        return rows.where(place_column(self.schema, ranges).isin(list(places)))

    def read_pages(self, paths: Sequence[str]) -> DataFrame:
        """Return the source's rows as its pages have them."""
        alone = Contents(self.table.relation, self.contents.as_of, None, (), ())
        if not paths:
            return self.table.read(alone)
        schema = self.table.read(alone).schema
        return self.table.spark.read.schema(schema).parquet(*map(self.table.lake.uri, paths))

    def differences(
        self, source: DataFrame, lake: DataFrame, since: Sequence[DataFile]
    ) -> DataFrame:
        """Return log rows that turn `lake` into `source`, less the keys that the log since names.

        Same law as `settled.difference`. The epoch is not theirs yet.
        """
        key_columns = self.schema.key_columns
        read = source.select(
            key_struct(key_columns).alias("read_key"), F.struct(*self._columns()).alias("new")
        )
        kept = lake.select(
            key_struct(key_columns).alias("lake_key"), F.struct(*self._columns()).alias("old")
        )
        pairs = read.join(kept, on=same_key("read_key", "lake_key", key_columns), how="full")
        wrong = pairs.where(~F.col("old").eqNullSafe(F.col("new"))).select(
            F.coalesce("read_key", "lake_key").alias("key"), "new", "old"
        )
        if since:
            named = self.table.log(since).select(F.col("key").alias("named")).distinct()
            wrong = wrong.join(named, on=same_key("key", "named", key_columns), how="left_anti")
        vnode = vnode_column(key_columns, self.table.relation.vnode_count, path="key")
        return wrong.select(
            vnode.alias("vnode"),
            F.lit(self.contents.as_of).cast("bigint").alias("epoch"),
            F.when(F.col("new").isNull(), F.lit(DELETE)).otherwise(F.lit(UPSERT)).alias("op"),
            F.lit(True).alias("known"),
            "key",
            "new",
            "old",
        )

    def _columns(self) -> list[str]:
        return [quote(name) for name in self.schema.names]


def place_column(schema: Schema, ranges: Sequence[KeyRange]) -> SparkColumn:
    """Return the place of a row in ranges that follow one another. Same law as `place_of`."""
    cuts = [r.lower for r in ranges[1:]]
    return _place(schema, cuts, 0)


def _place(schema: Schema, cuts: Sequence[Any], first: int) -> SparkColumn:
    """A balanced tree: a row meets few of many cuts."""
    if not cuts:
        return F.lit(first)
    middle = len(cuts) // 2
    beyond = _place(schema, cuts[middle + 1 :], first + middle + 1)
    before = _place(schema, cuts[:middle], first)
    return F.when(_at_least(schema, cuts[middle]), beyond).otherwise(before)


def _lies_in(schema: Schema, within: KeyRange) -> SparkColumn | None:
    conditions = []
    if within.lower is not None:
        # The first column's own condition is one that Parquet can skip row groups by.
        conditions += [_first(schema) >= F.lit(within.lower[0]), _at_least(schema, within.lower)]
    if within.upper is not None:
        conditions += [_first(schema) <= F.lit(within.upper[0]), ~_at_least(schema, within.upper)]
    return reduce(SparkColumn.__and__, conditions) if conditions else None


def _first(schema: Schema) -> SparkColumn:
    return field("", schema.key[0])


def _at_least(schema: Schema, key: Key) -> SparkColumn:
    """Return whether a row's key is `key` or comes after it."""
    *heads, (name, last) = list(zip(schema.key, key, strict=True))
    condition = field("", name) >= F.lit(last)
    for head, value in reversed(heads):
        column = field("", head)
        condition = (column > F.lit(value)) | ((column == F.lit(value)) & condition)
    return condition
