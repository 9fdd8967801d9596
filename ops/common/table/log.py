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

from ops.common.arrow import arrow_type
from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import FLOATS, INTEGERS, Column, Kind, Schema, struct_ddl
from ops.common.table.net import Net
from ops.common.vnode import vnode_of

UPSERT, DELETE = "+", "-"
FIXED = INTEGERS | FLOATS | {Kind.BOOL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
"""Never so large that a source would not send them."""


def log_ddl(schema: Schema) -> str:
    """Return the log's columns for Spark's reader."""
    row, key = struct_ddl(schema.columns), struct_ddl(schema.key_columns)
    values = f"key {key}, new {row}, old {row}, holes ARRAY<STRING>"
    return f"vnode INT, epoch BIGINT, op STRING, known BOOLEAN, {values}"


def log_table(net: Net, schema: Schema, *, vnode_count: int, epoch: Epoch) -> pa.Table:
    keys = sorted(net, key=_sortable)
    rows = [net[key] for key in keys]
    key_columns = schema.key_columns
    return pa.table(
        {
            "vnode": pa.array([vnode_of(k, key_columns, vnode_count) for k in keys], pa.int32()),
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


def may_have_holes(schema: Schema) -> tuple[str, ...]:
    """Return the columns whose value may be left out of an update; never one of the key."""
    return tuple(
        c.name for c in schema.columns if c.type.kind not in FIXED and c.name not in schema.key
    )


def _structs(rows: Sequence[Row | None], columns: tuple[Column, ...]) -> pa.StructArray:
    """Return rows as one struct array; an absent row is a NULL struct."""
    empty: tuple[Any, ...] = (None,) * len(columns)
    by_column = list(zip(*(empty if r is None else r for r in rows), strict=True)) or [
        () for _ in columns
    ]
    arrays = [
        pa.array(values, arrow_type(c.type)) for values, c in zip(by_column, columns, strict=True)
    ]
    fields = [pa.field(c.name, arrow_type(c.type)) for c in columns]
    absent = pa.array([r is None for r in rows], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _sortable(key: tuple[object, ...]) -> tuple[Any, ...]:
    return tuple((part is not None, part) for part in key)
