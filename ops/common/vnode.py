"""Which virtual node a key belongs to: crc32 over a stable text of the key, modulo the count.

    part    NULL    int     bool        text    numeric(p,s)      date     timestamp(tz)
    text    \\0      digits  true/false  itself  fixed s digits    days     microseconds

Days and microseconds count from 1970-01-01, as the integers that decoded rows hold; dates and
datetimes are taken too. Each part is followed by \\x1f. The column twin is
`ops.common.columns.vnode_column`.

Pure.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, NewType, assert_never
from zlib import crc32

from ops.common.schema import Column, DataType, Kind

Vnode = NewType("Vnode", int)

NULL_PART = "\0"
END = "\x1f"
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# The default of 28 digits cannot hold a numeric(38,18).
_EXACT = Context(prec=100)


def encode_part(value: Any, data_type: DataType) -> str:
    if value is None:
        return NULL_PART
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return str(int(value))
        case Kind.BOOL:
            return "true" if value else "false"
        case Kind.TEXT:
            return str(value)
        case Kind.NUMERIC:
            fixed = Decimal(value).quantize(Decimal(1).scaleb(-data_type.scale), context=_EXACT)
            # Spark has no negative zero.
            return format(abs(fixed) if fixed.is_zero() else fixed, "f")
        case Kind.DATE:
            if isinstance(value, int):
                return str(value)
            assert isinstance(value, date)
            return str(value.toordinal() - _EPOCH.toordinal())
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            if isinstance(value, int):
                return str(value)
            assert isinstance(value, datetime)
            since = value - (_EPOCH_UTC if value.tzinfo else _EPOCH)
            return str(since // _MICROSECOND)
        case _:
            assert_never(data_type.kind)


def vnode_of(key: tuple[Any, ...], columns: tuple[Column, ...], count: int) -> Vnode:
    text = "".join(encode_part(v, c.type) + END for v, c in zip(key, columns, strict=True))
    return Vnode(crc32(text.encode()) % count)
