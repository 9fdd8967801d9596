"""The log file of a relation: one net row per key and epoch, sorted by key.

    | vnode int | epoch long | op string | known bool | key struct | new struct | old struct |
    | holes array<string> |

`op` is `+` where `new` is a row and `-` where it is absent. `holes` names the columns whose value
in `new` is that of the row's version before the file; there they are NULL. It is NULL for a row
without holes, and in files of before there were any. The stream run writes these with pyarrow,
since it holds the decoded rows anyway; whoever reads them is Spark.

Arrow.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ops.common.arrow import arrow_type
from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import FLOATS, INTEGERS, Column, Kind, Schema, struct_ddl
from ops.common.table.net import Net
from ops.common.vnode import vnodes_of

UPSERT, DELETE = "+", "-"
FIXED = INTEGERS | FLOATS | {Kind.BOOL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
"""Never so large that a source would not send them."""


def log_ddl(schema: Schema) -> str:
    """Return the log's columns for Spark's reader."""
    row, key = struct_ddl(schema.columns), struct_ddl(schema.key_columns)
    values = f"key {key}, new {row}, old {row}, holes ARRAY<STRING>"
    return f"vnode INT, epoch BIGINT, op STRING, known BOOLEAN, {values}"


def log_table(net: Net, schema: Schema, *, vnode_count: int, epoch: Epoch) -> pa.Table:
    # Sorted as columns, below: looking rows up in the order of their keys costs more than they do.
    keys, rows = list(net), list(net.values())
    key_columns = schema.key_columns
    table = pa.table(
        {
            "vnode": pa.array(vnodes_of(keys, key_columns, vnode_count), pa.int32()),
            "epoch": pa.array([epoch] * len(keys), pa.int64()),
            "op": pa.array([DELETE if r.new is None else UPSERT for r in rows], pa.string()),
            "known": pa.array([r.known for r in rows], pa.bool_()),
            "key": _structs(keys, key_columns),
            "new": _structs([r.new for r in rows], schema.columns),
            "old": _structs([r.old for r in rows], schema.columns),
            "holes": pa.array(
                [[schema.names[i] for i in r.holes] if r.holes else None for r in rows],
                pa.list_(pa.string()),
            ),
        }
    )
    return _in_key_order(table)


def may_have_holes(schema: Schema) -> tuple[str, ...]:
    """Return the columns whose value may be left out of an update; never one of the key."""
    return tuple(
        c.name for c in schema.columns if c.type.kind not in FIXED and c.name not in schema.key
    )


def _structs(rows: Sequence[Row | None], columns: tuple[Column, ...]) -> pa.StructArray:
    """Return rows as one struct array; an absent row is a NULL struct."""
    empty: tuple[Any, ...] = (None,) * len(columns)
    given = [empty if r is None else r for r in rows]
    if any(r is not empty for r in given):
        arrays = [
            pa.array([row[i] for row in given], arrow_type(c.type)) for i, c in enumerate(columns)
        ]
    else:
        # Most logs have no old row at all: then there is nothing to look through.
        arrays = [pa.nulls(len(rows), arrow_type(c.type)) for c in columns]
    fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
    absent = pa.array([r is None for r in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _in_key_order(table: pa.Table) -> pa.Table:
    parts = table.column("key").combine_chunks().flatten()
    names = [f"k{i}" for i in range(len(parts))]
    order = pc.sort_indices(
        pa.table(parts, names=names),
        sort_keys=[(name, "ascending", "at_start") for name in names],
    )
    return table.take(order)
