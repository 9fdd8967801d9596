"""Postgres values on the wire -> the Python values of a row.

    int2 int4 int8     int
    numeric(p,s)       Decimal, exact, with exactly s digits after the point
    text               str (char(n) keeps its blanks, as the snapshot does)
    bool               bool
    date               int, days since 1970-01-01
    timestamp          int, microseconds since 1970-01-01 00:00, no zone
    timestamptz        int, microseconds since 1970-01-01 00:00 UTC

Dates and times are the integers Arrow keeps: making datetimes costs more than all the rest of a
row, and Python has none before the year 1 or after 9999. What has no place in the column's type
(NaN, infinity, too many digits) is refused, never rounded.

Pure.
"""

import re
from collections.abc import Callable
from decimal import Context, Decimal
from struct import Struct
from typing import Any, assert_never

from ops.common.schema import DataType, Kind

Decode = Callable[[bytes], Any]

TYPE_OIDS = {
    21: Kind.INT2,
    23: Kind.INT4,
    20: Kind.INT8,
    1700: Kind.NUMERIC,
    25: Kind.TEXT,
    1043: Kind.TEXT,
    1042: Kind.TEXT,
    16: Kind.BOOL,
    1082: Kind.DATE,
    1114: Kind.TIMESTAMP,
    1184: Kind.TIMESTAMPTZ,
}
"""varchar (1043) and char (1042) are text."""

# Postgres counts from 2000-01-01; the two ends of each integer stand for -infinity and infinity.
EPOCH_DAYS = 10_957
EPOCH_MICROS = EPOCH_DAYS * 86_400_000_000
DATE_MIN, DATE_MAX = -(2**31) + 1, 2**31 - 2
MICROS_MIN, MICROS_MAX = -(2**63) + 1, 2**63 - 1 - EPOCH_MICROS

_EXACT = Context(prec=100)
_POWERS = [10**n for n in range(80)]
_NUMERIC_HEAD = Struct(">hhH").unpack_from
_DIGITS = [Struct(f">{n}H").unpack_from for n in range(64)]
_NEGATIVE, _SPECIAL = 0x4000, {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


class ValueRefused(ValueError):
    """A value its column's type has no place for; the decoder turns it into `Poisoned`."""


def type_of(oid: int, modifier: int) -> DataType | None:
    """Return the type of a column as a Relation message names it, None for one we do not know."""
    kind = TYPE_OIDS.get(oid)
    if kind is None:
        return None
    if kind is not Kind.NUMERIC:
        return DataType(kind)
    if modifier < 0:
        return DataType(kind, 38, 18)
    return DataType(kind, (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 1024) - 1024)


def binary_decoder(data_type: DataType) -> Decode:
    """Return the decoder of one value as the type's send function writes it."""
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return _int
        case Kind.NUMERIC:
            return numeric_decoder(data_type.precision, data_type.scale)
        case Kind.TEXT:
            return bytes.decode
        case Kind.BOOL:
            return b"\x01".__eq__
        case Kind.DATE:
            return lambda raw: _days(_int(raw))
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return lambda raw: _micros(_int(raw))
        case _:
            assert_never(data_type.kind)


def text_decoder(data_type: DataType) -> Decode:
    """Return the decoder of one value as text, under DateStyle ISO."""
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return int
        case Kind.NUMERIC:
            precision, scale = data_type.precision, data_type.scale
            return lambda raw: _numeric_from_text(raw.decode(), precision, scale)
        case Kind.TEXT:
            return bytes.decode
        case Kind.BOOL:
            return b"t".__eq__
        case Kind.DATE:
            return lambda raw: _days_from_text(raw.decode())
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return lambda raw: _micros_from_text(raw.decode())
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


def _days(since_2000: int) -> int:
    if not DATE_MIN <= since_2000 <= DATE_MAX:
        raise ValueRefused("an infinite date has no place in the lake")
    return since_2000 + EPOCH_DAYS


def _micros(since_2000: int) -> int:
    if not MICROS_MIN <= since_2000 <= MICROS_MAX:
        raise ValueRefused("a timestamp that is infinite or after the year 294246")
    return since_2000 + EPOCH_MICROS


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


def _days_from_text(text: str) -> int:
    days, end = _read_date(text)
    if text[end:] not in ("", " BC"):
        raise ValueRefused(f"{text!r} is no date")
    return days


def _micros_from_text(text: str) -> int:
    days, end = _read_date(text)
    time = _TIME_TEXT.match(text, end)
    if time is None:
        raise ValueRefused(f"{text!r} is no timestamp")
    hours, minutes, seconds = (int(part) for part in time.groups()[:3])
    micros = int((time[4] or "").ljust(6, "0"))
    zone = _ZONE_TEXT.match(text, time.end())
    ahead = 0
    if zone is not None:
        ahead = int(zone[2]) * 3600 + int(zone[3] or 0) * 60 + int(zone[4] or 0)
        ahead = -ahead if zone[1] == "-" else ahead
    since_epoch = days * 86_400 + hours * 3600 + minutes * 60 + seconds - ahead
    return _micros(since_epoch * 1_000_000 + micros - EPOCH_MICROS)


def _read_date(text: str) -> tuple[int, int]:
    """Return the days since 1970-01-01 and where the date ends."""
    if text.endswith("infinity"):
        raise ValueRefused(f"{text} has no place in the lake")
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
