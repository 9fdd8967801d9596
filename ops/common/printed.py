"""Values of the lake as people read them, in the form Postgres prints.

    date                 2024-02-29, 0044-03-15 BC, infinity
    timestamp            2024-02-29 12:34:56.789
    timestamptz          2024-02-29 12:34:56.789+00
    bytea                \\xdeadbeef
    float                0.1, and as words NaN, Infinity, -Infinity
    integers, booleans, numerics and texts as they are

Dates and timestamps reach beyond what Python has; their integers are read.

Arrow.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any

import pyarrow as pa

from ops.common.schema import DAY_INFINITY, MICRO_INFINITY

_DAY_MICROS = 86_400_000_000
_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def printed_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return each row by column name; a NULL is None."""
    columns = [printed(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def printed(values: pa.ChunkedArray) -> list[Any]:
    data_type = values.type
    show: Callable[[Any], Any] = _same
    if pa.types.is_date32(data_type):
        values, show = values.cast(pa.int32()), show_date
    elif pa.types.is_timestamp(data_type):
        zone = "+00" if data_type.tz else ""
        values, show = values.cast(pa.int64()), _moments(zone)
    elif pa.types.is_binary(data_type):
        show = _show_bytes
    elif pa.types.is_floating(data_type):
        show = _show_float
    return [None if value is None else show(value) for value in values.to_pylist()]


def show_date(days: int) -> str:
    if days in (DAY_INFINITY, -DAY_INFINITY - 1):
        return "infinity" if days > 0 else "-infinity"
    text, era = _calendar(days)
    return text + era


def show_moment(micros: int, zone: str = "") -> str:
    if micros in (MICRO_INFINITY, -MICRO_INFINITY - 1):
        return "infinity" if micros > 0 else "-infinity"
    days, rest = divmod(micros, _DAY_MICROS)
    text, era = _calendar(days)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    if fraction:
        clock = f"{clock}.{fraction:06}".rstrip("0")
    return f"{text} {clock}{zone}{era}"


def _calendar(days: int) -> tuple[str, str]:
    """Return a day of the Gregorian calendar, carried on before its start, and its era."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = year_of_era + era * 400 + (month <= 2)
    if year > 0:
        return f"{year:04}-{month:02}-{day:02}", ""
    return f"{1 - year:04}-{month:02}-{day:02}", " BC"


def _moments(zone: str) -> Callable[[Any], Any]:
    return lambda micros: show_moment(micros, zone)


def _show_bytes(value: bytes) -> str:
    return "\\x" + value.hex()


def _show_float(value: float) -> Any:
    return value if isfinite(value) else _WORDS[str(value)]


def _same(value: Any) -> Any:
    return value
