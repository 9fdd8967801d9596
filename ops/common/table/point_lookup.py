"""Look rows up by key in the driver: for some thousand keys, Spark plans longer than this reads.

    below    base or snapshot files, only the row groups whose bounds a wanted key lies in:
             first the key columns, then, where a key was met, the others
    logs     each file has a key once; the last file that has it counts, before all below

Keys are met through their place in the wanted set, column by column, so that composite keys are
met exactly and NULL is a value. Memory holds a few row groups at a time.

Arrow.
"""

from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ops.common.arrow import arrow_type
from ops.common.ports import Lake
from ops.common.schema import STRINGS, Column, Kind, Schema
from ops.common.table.key_range import ORDERED

KEY_KINDS = ORDERED | {Kind.BOOL, Kind.BYTEA, Kind.NUMERIC, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
"""Key types of which Arrow and Spark agree when two values are equal."""
WORKERS = 4


class _Met(NamedTuple):
    """Places in the wanted set, and the row each of them has here; NULL where it was deleted."""

    places: pa.Array
    rows: pa.StructArray


class Keys:
    """Distinct keys, and the place of any other key among them.

    A column's values are numbered in the order of their coming; so are, from the second column on,
    the pairs of a key's number so far and the next column's.
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self.first = columns[0]
        self._steps: list[tuple[pa.Array, pa.Array | None]] = []
        place: pa.Array | None = None
        for column in columns:
            values, pairs = pc.unique(column), None
            place = _place(column, values, place, None)
            if self._steps:
                pairs = pc.unique(place)
                place = pc.index_in(place, pairs)
            self._steps.append((values, pairs))

    def places(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return each key's place, NULL for one that is not among these."""
        place: pa.Array | None = None
        for column, (values, pairs) in zip(columns, self._steps, strict=True):
            place = _place(column, values, place, pairs)
        return place


@dataclass(frozen=True)
class PointLookup:
    lake: Lake
    schema: Schema

    def find(
        self, keys: pa.StructArray, *, below: Sequence[str], logs: Sequence[str]
    ) -> pa.StructArray:
        """Return the row of each of `keys`, which are distinct; NULL where there is none.

        `logs` come in the order of their epochs.
        """
        wanted = Keys(key_columns(keys, self.schema))
        firsts = _sorted(wanted.first, self.schema.key_columns[0])
        with ThreadPoolExecutor(min(WORKERS, pa.cpu_count())) as pool:
            groups = [g for path in below for g in self._groups(path, firsts)]
            held = list(pool.map(partial(self._in_group, wanted=wanted), groups))
            said = list(pool.map(partial(self._in_log, wanted=wanted), logs))
        met = [part for part in (*held, *said) if len(part.places)]
        if not met:
            return pa.nulls(len(keys), row_type(self.schema))
        places = pa.concat_arrays([part.places for part in met])
        rows = pa.concat_arrays([part.rows for part in met])
        return rows.take(_last_of_each(places, len(keys)))

    def _groups(self, path: str, firsts: Sequence[Any] | None) -> list[tuple[str, int]]:
        """Return the row groups of a file that may hold a key."""
        with self.lake.parquet(path) as file:
            metadata = file.metadata
        first = self.schema.key[0]
        return [
            (path, number)
            for number in range(metadata.num_row_groups)
            if _may_hold(metadata.row_group(number), first, firsts)
        ]

    def _in_group(self, group: tuple[str, int], wanted: Keys) -> _Met:
        path, number = group
        with self.lake.parquet(path) as file:
            keys = file.read_row_group(number, columns=list(self.schema.key))
            columns = {c.name: _cast(one(keys.column(c.name)), c) for c in self.schema.key_columns}
            places = wanted.places(list(columns.values()))
            at = pc.indices_nonzero(pc.is_valid(places))
            there = set(file.schema_arrow.names) if len(at) else set()
            others = [c for c in self.schema.columns if c.name in there and c.name not in columns]
            if others:
                read = file.read_row_group(number, columns=[c.name for c in others])
                columns |= {c.name: read.column(c.name) for c in others}
        rows = {c.name: columns.get(c.name) for c in self.schema.columns}
        taken = {
            c.name: None if (found := rows[c.name]) is None else _cast(one(found.take(at)), c)
            for c in self.schema.columns
        }
        return _Met(places.take(at), rows_of(taken, self.schema, len(at)))

    def _in_log(self, path: str, wanted: Keys) -> _Met:
        with self.lake.parquet(path) as file:
            log = file.read(columns=["key", "new"])
        key, new = one(log.column("key")), one(log.column("new"))
        places = wanted.places(key_columns(key, self.schema))
        at = pc.indices_nonzero(pc.is_valid(places))
        return _Met(places.take(at), as_rows(new.take(at), self.schema))


def row_type(schema: Schema) -> pa.DataType:
    return pa.struct([pa.field(c.name, arrow_type(c.type)) for c in schema.columns])


def key_columns(keys: pa.StructArray, schema: Schema) -> list[pa.Array]:
    return [_cast(pc.struct_field(keys, [c.name]), c) for c in schema.key_columns]


def as_rows(structs: pa.StructArray, schema: Schema) -> pa.StructArray:
    """Return row structs of a file as the schema has them now; a column they lack is NULL."""
    there = {field.name for field in structs.type}
    columns = {
        c.name: _cast(pc.struct_field(structs, [c.name]), c) if c.name in there else None
        for c in schema.columns
    }
    return rows_of(columns, schema, len(structs), absent=pc.is_null(structs))


def rows_of(
    columns: dict[str, pa.Array | None],
    schema: Schema,
    count: int,
    *,
    absent: pa.Array | None = None,
) -> pa.StructArray:
    arrays = []
    for column in schema.columns:
        found = columns[column.name]
        arrays.append(pa.nulls(count, arrow_type(column.type)) if found is None else found)
    return pa.StructArray.from_arrays(arrays, fields=list(row_type(schema)), mask=absent)


def _place(
    column: pa.Array, values: pa.Array, so_far: pa.Array | None, pairs: pa.Array | None
) -> pa.Array:
    number = pc.index_in(column, values)
    if so_far is None:
        return number
    pair = pc.add(pc.multiply(so_far.cast(pa.int64()), len(values)), number)
    return pair if pairs is None else pc.index_in(pair, pairs)


def _last_of_each(places: pa.Array, count: int) -> pa.Array:
    """Return, for each place, where it comes last; NULL where it never does."""
    table = pa.table({"place": places, "at": pa.array(range(len(places)), pa.int64())})
    last = table.group_by("place").aggregate([("at", "max")])
    found = pc.index_in(pa.array(range(count), pa.int32()), one(last.column("place")))
    return one(last.column("at_max")).take(found)


def _sorted(values: pa.Array, column: Column) -> list[Any] | None:
    """Return first key parts as a file has their bounds, in its order; None where it has none."""
    if column.type.kind not in ORDERED or values.null_count:
        return None
    raw = pa.binary() if column.type.kind in STRINGS else pa.int64()
    # A date may be infinite, and then Python has none: its days are taken.
    days = values.cast(pa.int32()) if column.type.kind is Kind.DATE else values
    return sorted(set(days.cast(raw).to_pylist()))


def _may_hold(group: Any, first: str, firsts: Sequence[Any] | None) -> bool:
    if firsts is None:
        return True
    for number in range(group.num_columns):
        part = group.column(number)
        if part.path_in_schema == first:
            known = part.statistics if part.is_stats_set else None
            if known is None or not known.has_min_max:
                return True
            at = bisect_left(firsts, known.min_raw)
            return at < len(firsts) and bool(firsts[at] <= known.max_raw)
    return True


def _cast(values: pa.Array, column: Column) -> pa.Array:
    wanted = arrow_type(column.type)
    return values if values.type == wanted else values.cast(wanted)


def one(chunks: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(chunks, pa.Array):
        return chunks
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()
