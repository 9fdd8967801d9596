"""Which virtual node a key belongs to: crc32 over a stable text of the key, modulo the count.

    part    NULL    int     bool        text, other  numeric(p,s)    date  timestamp(tz)  bytea
    text    \\0      digits  true/false  itself       fixed s digits  days  microseconds   hex

Days and microseconds count from 1970-01-01, as the integers that decoded rows hold; dates and
datetimes are taken too. A float has no text that all Java versions agree on: it goes by Spark's own
hash of its bits as a double, in which -0 is 0 and there is one NaN, as in comparisons. Each part is
followed by \\x1f. The column twin is `ops.common.columns.vnode_column`.

Two keys are the same where their values in the lake are. Postgres may call more keys equal (citext,
'24:00' and '1 day', char with other blanks); then an update from one to the other is a change of
key here, and the stream says so, because it compares bytes.

Pure.
"""

from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from struct import pack
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
_WORD = 2**32 - 1
_NAN = float("nan")


def encode_part(value: Any, data_type: DataType) -> str:
    if value is None:
        return NULL_PART
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return str(int(value))
        case Kind.BOOL:
            return "true" if value else "false"
        case Kind.FLOAT4 | Kind.FLOAT8:
            return str(spark_hash(value))
        case Kind.TEXT | Kind.OTHER:
            return str(value)
        case Kind.BYTEA:
            return bytes(value).hex().upper()
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


def spark_hash(value: float) -> int:
    """Return what Spark's `hash` gives for a double: Murmur3 of its bits, from the seed 42."""
    bits = 0 if value == 0 else int.from_bytes(pack(">d", value if value == value else _NAN))
    h = 42
    for word in (bits & _WORD, bits >> 32):
        h ^= _turned(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
        h = _turned(h, 13) * 5 + 0xE6546B64 & _WORD
    h ^= 8
    h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
    h ^= h >> 16
    return h - (h >> 31 << 32)


def _turned(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _WORD
