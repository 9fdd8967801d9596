"""The log of a few thousand keys, netted in the driver: what it says last, and what has changed.

Same laws as in `StateTable`, which asks Spark where there is more than is in reach here: for a
little, Spark plans longer than this works; for much, all of it would go through one process.

Arrow.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ops.common.arrow import arrow_type
from ops.common.ports import Lake
from ops.common.schema import Schema
from ops.common.table.point_lookup import WORKERS, Keys, PointLookup, as_rows, key_columns, one


@dataclass(frozen=True, slots=True)
class Reach:
    """How much the driver takes upon itself; what is more is Spark's."""

    rows: int = 200_000
    """Of log files."""
    bytes: int = 1 << 30
    """Of files that are looked through for some keys, a row group at a time."""
    held_bytes: int = 1 << 26
    """Of log files that are held as a whole."""
    handed_rows: int = 20_000
    """Of a log that is handed to Spark with the plan; of more, only what is superseded in it."""


DRIVER = Reach()


def small_changes(
    lake: Lake, schema: Schema, files: Sequence[str], *, below: Sequence[str], logs: Sequence[str]
) -> pa.Table:
    """Return (`key`, `old`, `new`) net over `files`, which like `logs` come in epoch order.

    An unknown `old` is looked up in `below` and `logs`, the relation just before.
    """
    parts = _read(lake, files, ["known", "key", "old", "new"])
    key = pa.concat_arrays([_keys(part, schema) for part in parts])
    known = pa.concat_arrays([one(part.column("known")) for part in parts])
    old, new = (
        pa.concat_arrays([as_rows(one(part.column(side)), schema) for part in parts])
        for side in ("old", "new")
    )
    if len(files) > 1:
        first, last = _ends(key, schema)
        key, known, old, new = key.take(first), known.take(first), old.take(first), new.take(last)
    blind = pc.indices_nonzero(pc.invert(known))
    if len(blind):
        found = PointLookup(lake, schema).find(key.take(blind), below=below, logs=logs)
        place = pc.index_in(pa.array(range(len(key)), pa.uint64()), blind)
        at = pc.if_else(
            known, pa.array(range(len(key)), pa.int64()), pc.add(place.cast(pa.int64()), len(key))
        )
        old = pa.concat_arrays([old, found]).take(at)
    return pa.table({"key": key, "old": old, "new": new})


def newest_of(lake: Lake, schema: Schema, logs: Sequence[str]) -> pa.Table:
    """Return (`key`, `new`), what `logs` say last of each key; `new` is NULL where it was deleted.

    The files come in the order of their epochs.
    """
    parts = _read(lake, logs, ["key", "new"])
    key = pa.concat_arrays([_keys(part, schema) for part in parts])
    new = pa.concat_arrays([as_rows(one(part.column("new")), schema) for part in parts])
    if len(logs) > 1:
        last = _ends(key, schema)[1]
        key, new = key.take(last), new.take(last)
    return pa.table({"key": key, "new": new})


def superseded(lake: Lake, schema: Schema, logs: Sequence[str]) -> pa.Table:
    """Return (`key`, `epoch`) of the rows in `logs` that a later file has a row of the key after.

    The files come in the order of their epochs.
    """
    parts = _read(lake, logs, ["key", "epoch"])
    key = pa.concat_arrays([_keys(part, schema) for part in parts])
    epoch = pa.concat_arrays([one(part.column("epoch")) for part in parts])
    last = _ends(key, schema)[1]
    at = pc.indices_nonzero(
        pc.invert(pc.is_in(pa.array(range(len(key)), pa.int64()), value_set=last))
    )
    return pa.table({"key": key.take(at), "epoch": epoch.take(at)})


def _read(lake: Lake, paths: Sequence[str], columns: list[str]) -> list[pa.Table]:
    def read(path: str) -> pa.Table:
        with lake.parquet(path) as file:
            return file.read(columns=columns)

    with ThreadPoolExecutor(min(WORKERS, pa.cpu_count())) as pool:
        return list(pool.map(read, paths))


def _keys(part: pa.Table, schema: Schema) -> pa.StructArray:
    columns = key_columns(one(part.column("key")), schema)
    fields = [pa.field(c.name, arrow_type(c.type)) for c in schema.key_columns]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _ends(key: pa.StructArray, schema: Schema) -> tuple[pa.Array, pa.Array]:
    """Return where each key comes first and last."""
    columns = key_columns(key, schema)
    places = Keys(columns).places(columns)
    table = pa.table({"place": places, "at": pa.array(range(len(places)), pa.int64())})
    ends = table.group_by("place").aggregate([("at", "min"), ("at", "max")])
    return one(ends.column("at_min")), one(ends.column("at_max"))
