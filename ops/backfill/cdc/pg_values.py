"""Postgres values on the wire -> the Python values of a row.

    int2 int4 int8     int
    float4 float8      float; every NaN is the one object NAN, which is equal to itself as a key
    numeric(p,s)       Decimal, exact, with exactly s digits after the point
    text               str (char(n) keeps its blanks, as the snapshot does)
    bool               bool
    bytea              bytes
    date               int, days since 1970-01-01
    timestamp          int, microseconds since 1970-01-01 00:00, no zone
    timestamptz        int, microseconds since 1970-01-01 00:00 UTC
    other              str, as Postgres prints it

Dates and times are the integers Arrow keeps: making datetimes costs more than all the rest of a
row, and Python has none before the year 1 or after 9999. What has no place in the column's type
(too many digits, a numeric NaN, a timestamp after the year 294246) is refused, never rounded.

A stream is asked for in binary where each type of it can be read from it (`reads_binary`), else as
text, for all columns: what Postgres prints of any type is text that only Postgres can make.

Pure.
"""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from struct import Struct
from typing import Any, assert_never

from ops.backfill.cdc.pg_text import BINARY_TO_TEXT
from ops.common.schema import DAY_INFINITY, MICRO_INFINITY, DataType, Kind, Schema

Decode = Callable[[bytes], Any]
SourceType = tuple[int, int]
"""(type's oid, modifier) of a column, as the catalog and a Relation message tell it."""

TYPE_OIDS = {
    21: Kind.INT2,
    23: Kind.INT4,
    20: Kind.INT8,
    700: Kind.FLOAT4,
    701: Kind.FLOAT8,
    1700: Kind.NUMERIC,
    25: Kind.TEXT,
    1043: Kind.TEXT,
    1042: Kind.TEXT,
    16: Kind.BOOL,
    17: Kind.BYTEA,
    1082: Kind.DATE,
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMPTZ,
}
"""varchar (1043) and char (1042) are text."""
_MAY_GROW = (1043, 1562)

# Postgres counts from 2000-01-01; the two ends of each integer stand for -infinity and infinity.
EPOCH_DAYS = 10_957
EPOCH_MICROS = EPOCH_DAYS * 86_400_000_000
DATE_MIN, DATE_MAX = -(2**31) + 1, 2**31 - 2
MICROS_MIN, MICROS_MAX = -(2**63) + 1, 2**63 - 2 - EPOCH_MICROS

NAN = float("nan")
_EXACT = Context(prec=100)
_POWERS = [10**n for n in range(80)]
_NUMERIC_HEAD = Struct(">hhH").unpack_from
_DIGITS = [Struct(f">{n}H").unpack_from for n in range(64)]
_NEGATIVE, _SPECIAL = 0x4000, {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}
_FLOAT4, _FLOAT8 = Struct(">f"), Struct(">d")


class ValueRefused(ValueError):
    """A value its column's type has no place for; the decoder turns it into `Poisoned`."""


def type_of(oid: int, modifier: int) -> DataType | None:
    """Return the type of a column as a Relation message names it, None where its name is needed."""
    kind = TYPE_OIDS.get(oid)
    if kind is None:
        return None
    if kind is not Kind.NUMERIC:
        return DataType(kind)
    if modifier < 0:
        return DataType(kind, 38, 18)
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    # Zeros before the point, or right after it, that the source does not count as digits.
    return DataType(kind, max(precision, scale, precision - scale), max(scale, 0))


def keeps_values(bound: SourceType, now: SourceType) -> bool:
    """Whether a column of type `now` holds what it held as `bound`: any other change of a type
    may rewrite the table, of which the stream says nothing."""
    return bound == now or (
        bound[0] == now[0] and bound[0] in _MAY_GROW and (now[1] < 0 or 0 <= bound[1] <= now[1])
    )


def reads_binary(tables: Iterable[Schema]) -> bool:
    """Whether the stream of these tables is asked for in binary."""
    types = (column.type for schema in tables for column in schema.columns)
    return all(t.kind is not Kind.OTHER or t.name in BINARY_TO_TEXT for t in types)


def binary_decoder(data_type: DataType) -> Decode:
    """Return the decoder of one value as the type's send function writes it."""
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return _int
        case Kind.FLOAT4:
            return lambda raw: _float(_FLOAT4.unpack(raw)[0])
        case Kind.FLOAT8:
            return lambda raw: _float(_FLOAT8.unpack(raw)[0])
        case Kind.NUMERIC:
            return numeric_decoder(data_type.precision, data_type.scale)
        case Kind.TEXT:
            return bytes.decode
        case Kind.BOOL:
            return b"\x01".__eq__
        case Kind.BYTEA:
            return bytes
        case Kind.DATE:
            return lambda raw: days(_int(raw))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return lambda raw: micros(_int(raw))
        case Kind.OTHER:
            return BINARY_TO_TEXT.get(data_type.name) or _only_as_text(data_type)
        case _:
            assert_never(data_type.kind)


def text_decoder(data_type: DataType) -> Decode:
    """Return the decoder of one value as text, under the settings of our sessions."""
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return int
        case Kind.FLOAT4:
            # Through its four bytes: it is the same float then as from the binary form.
            return lambda raw: _float(_FLOAT4.unpack(_FLOAT4.pack(float(raw)))[0])
        case Kind.FLOAT8:
            return lambda raw: _float(float(raw))
        case Kind.NUMERIC:
            return numeric_text_decoder(data_type.precision, data_type.scale)
        case Kind.TEXT | Kind.OTHER:
            return bytes.decode
        case Kind.BOOL:
            return b"t".__eq__
        case Kind.BYTEA:
            return _bytes_from_text
        case Kind.DATE:
            return _days_from_text
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _micros_from_text
        case _:
            assert_never(data_type.kind)


def numeric_decoder(precision: int, scale: int) -> Decode:
    """Digits come in base 10,000; the value is sum(digit[i] * 10000 ** (weight - i))."""
    limit, exponent = 10**precision, -scale

    def decode(raw: bytes) -> Decimal:
        count, weight, sign = _NUMERIC_HEAD(raw)
        if sign in _SPECIAL:
            raise ValueRefused(f"{_SPECIAL[sign]} has no place in numeric({precision},{scale})")
        unscaled = 0
        if count < 64:
            for digit in _DIGITS[count](raw, 8):
                unscaled = unscaled * 10_000 + digit
            shift = 4 * (weight - count + 1) + scale
            if 0 <= shift < 80:
                unscaled *= _POWERS[shift]
            elif -80 < shift < 0:
                unscaled, rest = divmod(unscaled, _POWERS[-shift])
                if rest:
                    raise _does_not_fit(precision, scale)
            elif unscaled:
                raise _does_not_fit(precision, scale)
            if unscaled < limit:
                if sign == _NEGATIVE:
                    unscaled = -unscaled
                return Decimal(unscaled).scaleb(exponent, _EXACT)
        raise _does_not_fit(precision, scale)

    return decode


def _does_not_fit(precision: int, scale: int) -> ValueRefused:
    return ValueRefused(f"a value with more digits than numeric({precision},{scale}) can hold")


def _int(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _float(value: float) -> float:
    return value if value == value else NAN


def days(since_2000: int) -> int:
    if DATE_MIN <= since_2000 <= DATE_MAX:
        return since_2000 + EPOCH_DAYS
    return DAY_INFINITY if since_2000 > 0 else -DAY_INFINITY - 1


def micros(since_2000: int) -> int:
    if MICROS_MIN <= since_2000 <= MICROS_MAX:
        return since_2000 + EPOCH_MICROS
    if since_2000 == MICRO_INFINITY:
        return MICRO_INFINITY
    if since_2000 < 0:
        return -MICRO_INFINITY - 1
    raise ValueRefused("a timestamp after the year 294246 has no place in the lake")


def _bytes_from_text(raw: bytes) -> bytes:
    if raw[:2] != b"\\x":
        raise ValueRefused(f"bytes that do not come in hex: {raw[:20]!r}")
    return bytes.fromhex(raw[2:].decode())


def _only_as_text(data_type: DataType) -> Decode:
    def refuse(raw: bytes) -> Any:
        raise ValueRefused(f"{data_type.shown} came in its binary form, which is not read")

    return refuse


def numeric_text_decoder(precision: int, scale: int) -> Decode:
    def decode(raw: bytes) -> Decimal:
        text = raw.decode()
        # As Postgres prints it, with exactly `scale` digits: neither NaN nor infinity has a point.
        if scale and len(text) <= precision + 1 and text[-scale - 1 : -scale] == ".":
            return Decimal(text)
        return _numeric_from_text(text, precision, scale)

    return decode


def _numeric_from_text(text: str, precision: int, scale: int) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueRefused(f"{text} has no place in numeric({precision},{scale})")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    shift = exponent + scale
    rest = 0
    if shift >= 0:
        unscaled *= 10**shift
    else:
        unscaled, rest = divmod(unscaled, 10**-shift)
    if rest or unscaled >= 10**precision:
        raise _does_not_fit(precision, scale)
    return Decimal(-unscaled if sign else unscaled).scaleb(-scale, _EXACT)


_DATE_TEXT = re.compile(r"(\d{4,})-(\d\d)-(\d\d)")
_TIME_TEXT = re.compile(r" (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_ZONE_TEXT = re.compile(r"([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")


_INFINITY = {"infinity": 1, "-infinity": -1}
_FIRST_ORDINAL = date(1970, 1, 1).toordinal()
_FIRST_MOMENT = datetime(1970, 1, 1)
_FIRST_MOMENT_UTC = datetime(1970, 1, 1, tzinfo=UTC)


def _days_from_text(raw: bytes) -> int:
    text = raw.decode()
    if len(text) == 10 and text[4] == "-":
        return date.fromisoformat(text).toordinal() - _FIRST_ORDINAL
    if text in _INFINITY:
        return days(_INFINITY[text] * 2**31)
    day, end = _read_date(text)
    if text[end:] not in ("", " BC"):
        raise ValueRefused(f"{text!r} is no date")
    return day


def _micros_from_text(raw: bytes) -> int:
    text = raw.decode()
    if text[4:5] == "-" and text[-1] != "C":
        moment = datetime.fromisoformat(text)
        since = moment - (_FIRST_MOMENT if moment.tzinfo is None else _FIRST_MOMENT_UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    if text in _INFINITY:
        return MICRO_INFINITY if text[0] == "i" else -MICRO_INFINITY - 1
    day, end = _read_date(text)
    time = _TIME_TEXT.match(text, end)
    if time is None:
        raise ValueRefused(f"{text!r} is no timestamp")
    hours, minutes, seconds = (int(part) for part in time.groups()[:3])
    fraction = int((time[4] or "").ljust(6, "0"))
    zone = _ZONE_TEXT.match(text, time.end())
    ahead = 0
    if zone is not None:
        ahead = int(zone[2]) * 3600 + int(zone[3] or 0) * 60 + int(zone[4] or 0)
        ahead = -ahead if zone[1] == "-" else ahead
    since_epoch = day * 86_400 + hours * 3600 + minutes * 60 + seconds - ahead
    return micros(since_epoch * 1_000_000 + fraction - EPOCH_MICROS)


def _read_date(text: str) -> tuple[int, int]:
    """Return the days since 1970-01-01 and where the date ends."""
    found = _DATE_TEXT.match(text)
    if found is None:
        raise ValueRefused(f"{text!r} is no date in the ISO style")
    year, month, day = (int(part) for part in found.groups())
    if text.endswith(" BC"):
        year = 1 - year
    return _days_from_civil(year, month, day), found.end()


def _days_from_civil(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the Gregorian calendar, carried on before its start."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468
