"""Some rows of a table, by their keys: a look-up per key, many of them in one query."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from psycopg import sql

from resources.postgres_link import Link
from resources.postgres_page import page_dsn, printed, read_page

KEYS_PER_QUERY = 500
_EPOCHS = {
    "timestamp": "TIMESTAMP '1970-01-01' + {} * INTERVAL '1 microsecond'",
    "timestamptz": "TIMESTAMPTZ '1970-01-01 00:00:00+00' + {} * INTERVAL '1 microsecond'",
    "date": "DATE '1970-01-01' + {}",
}


def read_rows(
    link: Link,
    table: tuple[str, str],
    columns: Sequence[tuple[str, str]],
    key: Sequence[str],
    keys: Sequence[tuple[Any, ...]],
) -> Mapping[int, tuple[Any, ...]]:
    """Return rows by the place of their key in `keys`; `columns` are (name, our type) pairs.

    Dates and timestamps in keys are the integers that decoded rows hold.
    """
    types = dict(columns)
    found: dict[int, tuple[Any, ...]] = {}
    for start in range(0, len(keys), KEYS_PER_QUERY):
        parts = [
            _row_query(place, table, columns, key, types, value)
            for place, value in enumerate(keys[start : start + KEYS_PER_QUERY], start)
        ]
        query = sql.SQL(" UNION ALL ").join(parts).as_string(None)
        page, _ = read_page(page_dsn(link), query, [("_tg_place", "int8"), *columns], ())
        for place, *values in zip(*(_counted(c).to_pylist() for c in page.columns), strict=True):
            found[place] = tuple(values)
    return found


def _counted(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return days and microseconds as integers: Python has no words for all of them."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values


def _row_query(
    place: int,
    table: tuple[str, str],
    columns: Sequence[tuple[str, str]],
    key: Sequence[str],
    types: Mapping[str, str],
    values: tuple[Any, ...],
) -> sql.Composed:
    same = [
        sql.SQL("{} = {}").format(sql.Identifier("page", name), _literal(value, types[name]))
        for name, value in zip(key, values, strict=True)
    ]
    return sql.SQL("SELECT {}::int8, {} FROM ONLY {} AS page WHERE {}").format(
        sql.Literal(place),
        sql.SQL(", ").join(printed(name, text) for name, text in columns),
        sql.Identifier(*table),
        sql.SQL(" AND ").join(same),
    )


def _literal(value: Any, data_type: str) -> sql.Composable:
    if data_type in _EPOCHS and isinstance(value, int):
        return sql.SQL("(" + _EPOCHS[data_type] + ")").format(sql.Literal(value))
    return sql.Literal(value)
