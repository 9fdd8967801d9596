"""The log file of a relation: one net row per key and epoch, sorted by key.

    | vnode int | epoch long | op string | known bool | key struct | new struct | old struct |

`op` is `+` where `new` is a row and `-` where it is absent. The stream run writes these with
pyarrow, since it holds the decoded rows anyway; whoever reads them is Spark.

Arrow.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ops.common.arrow import arrow_type
from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import Column, Schema, struct_ddl
from ops.common.table.net import Net
from ops.common.vnode import vnode_of

UPSERT, DELETE = "+", "-"


def log_ddl(schema: Schema) -> str:
    """Return the log's columns for Spark's reader."""
    row, key = struct_ddl(schema.columns), struct_ddl(schema.key_columns)
    return f"vnode INT, epoch BIGINT, op STRING, known BOOLEAN, key {key}, new {row}, old {row}"


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
        }
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
    # NaN is after all numbers, and the only value that is not equal to itself.
    return tuple((part is not None, part != part, part) for part in key)
