"""The Arrow type of each of our types: what files hold, what pages and decoded rows become.

Dates and timestamps in decoded rows are already the integers Arrow keeps (days, microseconds), so
`pa.array(values, arrow_type(t))` takes them as they are.

Arrow.
"""

from collections.abc import Iterable
from typing import assert_never

import pyarrow as pa

from ops.common.schema import Column, DataType, Kind


def arrow_type(data_type: DataType) -> pa.DataType:
    match data_type.kind:
        case Kind.INT2:
            return pa.int16()
        case Kind.INT4:
            return pa.int32()
        case Kind.INT8:
            return pa.int64()
        case Kind.NUMERIC:
            return pa.decimal128(data_type.precision, data_type.scale)
        case Kind.FLOAT4:
            return pa.float32()
        case Kind.FLOAT8:
            return pa.float64()
        case Kind.TEXT | Kind.OTHER:
            return pa.string()
        case Kind.BOOL:
            return pa.bool_()
        case Kind.BYTEA:
            return pa.binary()
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case Kind.TIMESTAMPTZ:
            return pa.timestamp("us", tz="UTC")
        case _:
            assert_never(data_type.kind)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Every field is nullable: a key-only before image leaves the other columns empty."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


def counted(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return days and microseconds as the integers that decoded rows hold; others as they are."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values
