"""Rows as they were at the last commit, or as the source has them now: what fills a moved hole.

    table is live      the lake as of the last commit has the row under its old key
    not yet            the old key may be unread: the row is read from the source under its new one

What the source answers may be younger than the event. Until the table is live that does no harm:
whatever changed the value since is in the stream, and supersedes it. So the table may not go live
before the stream has passed the read.

Spark.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from ops.backfill.cdc.evolve import Attribute
from ops.common.arrow import arrow_type, counted
from ops.common.change import Row
from ops.common.columns import same_key
from ops.common.epoch import Epoch
from ops.common.ports import Lake, Store
from ops.common.schema import Schema
from ops.common.table.key_range import ranges_of
from ops.common.table.net import Key
from ops.common.table.relation import Relation, contents, versions_of
from ops.common.table.state_table import StateTable

ReadRows = Callable[
    [tuple[str, str], Sequence[tuple[str, str]], Sequence[str], Sequence[Key]], Mapping[int, Row]
]
"""(source's table, columns and types, key columns, keys) -> rows by the place of their key."""


@dataclass(frozen=True)
class RowVersions:
    store: Store
    lake: Lake
    spark: Callable[[], SparkSession]
    committed: Callable[[], Epoch]
    read_rows: ReadRows
    columns: Callable[[int, bool], Sequence[Attribute]]

    def before(self, relation: Relation, keys: Sequence[Key]) -> Mapping[Key, Row] | None:
        """Return rows as of the last commit by key; None while the table is not live."""
        now = next(r for r in versions_of(self.store, relation.pipeline) if r.id == relation.id)
        if now.live_since is None:
            return None
        columns = relation.schema.key_columns
        wanted = self.spark().createDataFrame(
            pa.table({"_tg_place": pa.array(range(len(keys))), "wanted": _structs(keys, columns)})
        )
        found = StateTable(self.spark(), self.lake, relation).lookup(
            contents(self.store, relation, self.committed()),
            wanted.select(wanted["wanted"].alias("key")),
            ranges=ranges_of((key[0] for key in keys), columns[0].type),
        )
        placed = found.join(wanted, on=same_key("key", "wanted", columns), how="inner")
        rows = placed.select("_tg_place", "row.*").toArrow()
        lines = zip(*(counted(column).to_pylist() for column in rows.columns), strict=True)
        return {keys[place]: tuple(values) for place, *values in lines}

    def now(self, table: tuple[str, str], schema: Schema, keys: Sequence[Key]) -> Mapping[Key, Row]:
        """Return rows by key as the source has them at this moment."""
        columns = [(c.name, str(c.type)) for c in schema.columns]
        found = self.read_rows(table, columns, schema.key, keys)
        return {keys[place]: row for place, row in found.items()}


def _structs(keys: Sequence[Key], columns: tuple[Any, ...]) -> pa.StructArray:
    arrays = [pa.array([key[i] for key in keys], arrow_type(c.type)) for i, c in enumerate(columns)]
    return pa.StructArray.from_arrays(arrays, names=[c.name for c in columns])
