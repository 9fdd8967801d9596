"""Which types go together, as Postgres resolves them.

    int2 < int4 < int8 < numeric      each widens to the next by itself
    date < timestamp < timestamptz    so do these; all times are UTC
    text, bool                        only themselves
    a quoted text, NULL               whatever is needed

A numeric's precision and scale are carried along, since Spark needs them: a result has the scale
Postgres gives it, and a value that does not fit its 38 digits is an error, never cut.

Pure.
"""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from ops.common.schema import NUMERIC, TEXT, DataType, Kind

DIGITS = 38
NUMBERS = (Kind.INT2, Kind.INT4, Kind.INT8, Kind.NUMERIC)
TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
INT2 = DataType(Kind.INT2)
INT4 = DataType(Kind.INT4)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
TIMESTAMPTZ = DataType(Kind.TIMESTAMPTZ)
_WHOLE = {Kind.INT2: 5, Kind.INT4: 10, Kind.INT8: 19}
_LIMITS = {Kind.INT2: 2**15, Kind.INT4: 2**31, Kind.INT8: 2**63}
_SHOWN = {
    Kind.INT2: "smallint",
    Kind.INT4: "integer",
    Kind.INT8: "bigint",
    Kind.NUMERIC: "numeric",
    Kind.TEXT: "text",
    Kind.BOOL: "boolean",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp without time zone",
    Kind.TIMESTAMPTZ: "timestamp with time zone",
}
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)? ?(Z|[+-]\d{2}(:?\d{2})?)?"
)


def shown(data_type: DataType | None) -> str:
    """Return what Postgres calls a type: `pg_typeof` says the same."""
    if data_type is None:
        return "unknown"
    return data_type.name or _SHOWN.get(data_type.kind, str(data_type))


def numeric(whole: int, scale: int) -> DataType:
    """Return numeric with this many digits before and after the point, cut to 38 in all."""
    return DataType(Kind.NUMERIC, min(DIGITS, max(1, whole + scale)), scale)


def as_numeric(data_type: DataType) -> DataType:
    """Return the numeric that holds every value of a number's type."""
    if data_type.kind is Kind.NUMERIC:
        return data_type
    return DataType(Kind.NUMERIC, _WHOLE[data_type.kind], 0)


def whole_digits(data_type: DataType) -> int:
    found = as_numeric(data_type)
    return found.precision - found.scale


def common_type(types: Iterable[DataType | None]) -> DataType | None:
    """Return the type that all of them widen to, or None. Nothing but quoted texts is text."""
    known = [t for t in types if t is not None]
    if not known:
        return TEXT
    kinds = {t.kind for t in known}
    for ladder in (NUMBERS, TIMES):
        if kinds <= set(ladder):
            top = max(kinds, key=ladder.index)
            if top is not Kind.NUMERIC:
                return DataType(top)
            scale = max(as_numeric(t).scale for t in known)
            return numeric(max(whole_digits(t) for t in known), scale)
    return known[0] if len(set(known)) == 1 else None


def widens(given: DataType, to: DataType) -> bool:
    """Say whether a value of one type may stand where the other is asked for."""
    return given == to or common_type((given, to)) == to


def compares_alike(data_type: DataType) -> bool:
    """Say whether Spark finds the same values equal and orders them as Postgres does.

    It does not know how an enum is ordered, nor that citext sees no case; text goes by its bytes.
    """
    known = (*NUMBERS, *TIMES, Kind.TEXT, Kind.BOOL)
    return data_type.kind in known and not data_type.name


def can_cast(given: DataType, to: DataType) -> bool:
    """Say whether CAST is there in Postgres and computes the same in Spark."""
    a, b = given.kind, to.kind
    known = {*NUMBERS, *TIMES, Kind.TEXT, Kind.BOOL}
    if a not in known or b not in known:
        return False
    return (
        a is b
        or (a in NUMBERS and b in NUMBERS)
        or (a in TIMES and b in TIMES)
        or b is Kind.TEXT
        or (a is Kind.TEXT and b in (*NUMBERS, Kind.BOOL))
        or {a, b} == {Kind.BOOL, Kind.INT4}
    )


def read_literal(text: str, to: DataType) -> str | None:
    """Return a quoted text as a value of the type, in Postgres's form; None if it is not one."""
    kind, bare = to.kind, text.strip()
    if kind is Kind.TEXT:
        return text
    if kind is Kind.BOOL:
        return _read_bool(bare.lower())
    if kind in _LIMITS:
        return _read_integer(bare, _LIMITS[kind])
    if kind is Kind.NUMERIC:
        found = _read_decimal(bare)
        return None if found is None else format(found, "f")
    if kind is Kind.DATE:
        return _read_date(bare)
    if kind in TIMES:
        return _read_time(bare, zoned=kind is Kind.TIMESTAMPTZ)
    return None


def number_type(text: str) -> tuple[str, DataType] | None:
    """Return an unquoted number's text and type: int4, int8, else numeric with its own scale."""
    if text.isdigit():
        for kind in (Kind.INT4, Kind.INT8):
            if int(text) < _LIMITS[kind]:
                return str(int(text)), DataType(kind)
    found = _read_decimal(text)
    if found is None:
        return None
    plain = format(found, "f")
    whole, _, fraction = plain.lstrip("-").partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    if digits > DIGITS:
        return None
    return plain, DataType(Kind.NUMERIC, max(digits, len(fraction), 1), len(fraction))


def literal_numeric(text: str) -> DataType:
    found = number_type(text.lstrip("+-"))
    return NUMERIC if found is None else as_numeric(found[1])


def _read_bool(word: str) -> str | None:
    if not word or word == "o":
        return None
    if any(full.startswith(word) for full in _TRUE):
        return "true"
    return "false" if any(full.startswith(word) for full in _FALSE) else None


def _read_integer(text: str, limit: int) -> str | None:
    if not re.fullmatch(r"[+-]?\d+", text) or not -limit <= int(text) < limit:
        return None
    return str(int(text))


def _read_decimal(text: str) -> Decimal | None:
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _read_date(text: str) -> str | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return None


def _read_time(text: str, *, zoned: bool) -> str | None:
    if not _TIME.fullmatch(text):
        return None
    zone = re.search(r" ?(Z|[+-]\d{2}(:?\d{2})?)$", text[10:])
    try:
        found = datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    if zoned:
        found = found.astimezone(UTC) if zone else found.replace(tzinfo=UTC)
    # A zone written after a timestamp without one is read over, as in Postgres.
    return found.replace(tzinfo=None).isoformat(sep=" ")
