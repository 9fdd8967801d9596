"""One page of a table, as Arrow: a key range in key order, read by COPY in binary.

`read_page` runs inside a Spark task: a plain function of plain values. A row has the same values
here and in the stream (`ops.backfill.cdc.pg_values`); what has no place in the column's type is
refused here as it is there.
"""

from collections.abc import Sequence
from typing import Any, cast

import adbc_driver_manager
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from resources.errors import ConfigError
from resources.key_range import Key, KeyColumn, key_order, key_range, key_texts, last_key
from resources.postgres_link import Link, SourceRefused, SourceUnreachable, compose

PAGE_SECONDS = 300

_FIXED = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "bool": pa.bool_(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
}
# The first day Postgres knows, 4714-11-24 BC, and from where it counts. The driver lets infinity
# and what is too far in the future run over into numbers before that day.
_FIRST_DAY, _START_DAY = -2_440_588, 10_957
_DAY_MICROS = 86_400_000_000
_PASSING = ("08", "53", "57", "40", "55")


class ValueDoesNotFit(ConfigError):
    """A value its column's type has no place for: the table stops by name."""

    def __init__(self, column: str, data_type: str, why: str) -> None:
        self.column, self.data_type = column, data_type
        super().__init__(f"column {column}: a value has no place in {data_type}: {why}")


def page_dsn(link: Link) -> str:
    """Return what a task connects with. It holds the password: never log it."""
    return link.dsn(
        statement_timeout=PAGE_SECONDS * 1000,
        default_transaction_read_only="on",
        # Rather an error than rows missing because a policy hides them.
        row_security="off",
    )


def page_query(
    schema: str,
    table: str,
    columns: Sequence[tuple[str, str]],
    key: Sequence[KeyColumn],
    *,
    at_least: Key | None = None,
    above: Key | None = None,
    below: Key | None = None,
    only: str | None = None,
    limit: int,
) -> str:
    """Return the query of the first `limit` rows of a key range, in the key's order.

    `columns` are (name, our type) pairs. `only` is a condition in SQL that the user gave; rows for
    which it is not true are left out.
    """
    name = sql.Identifier(schema, table)
    rows: sql.Composable = sql.SQL("ONLY {}").format(name)
    if only is not None:
        # Apart from the range, which it must not widen whatever is in it.
        rows = compose("filter_rows", table=name, filter=sql.SQL(cast(Any, only)))
    text = compose(
        "read_page",
        columns=sql.SQL(", ").join(
            [*(printed(name, text) for name, text in columns), *key_texts(key)]
        ),
        rows=rows,
        where=key_range(key, at_least=at_least, above=above, below=below),
        key=key_order(key, "page"),
        limit=sql.Literal(int(limit)),
    ).as_string(None)
    # It becomes the inside of COPY (…): no comment, no semicolon.
    return text[text.index("SELECT") :].strip().removesuffix(";")


def printed(column: str, data_type: str) -> sql.Composable:
    """Return what a page selects for a column of our type: itself, or what Postgres prints of it.

    A cast to text is something else for some types, as inet; and for a composite IS NULL asks for
    its fields.
    """
    name = sql.Identifier("page", column)
    if data_type in _FIXED or data_type.startswith("numeric("):
        return name
    return sql.SQL(
        "CASE WHEN {name} IS DISTINCT FROM NULL THEN pg_catalog.format('%s', {name}) END"
    ).format(name=name)


def page_schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Return the Arrow schema of (name, our type) pairs."""
    return pa.schema([pa.field(name, _arrow_type(text)) for name, text in columns])


def load_driver() -> Any:
    """Return the driver. The first time it takes a second or more: that is no page's time."""
    # Here, not above: it brings pandas along, and only the workers that read pages need it.
    import adbc_driver_postgresql.dbapi as adbc

    return adbc


def read_page(
    dsn: str, query: str, columns: Sequence[tuple[str, str]], key: Sequence[KeyColumn]
) -> tuple[pa.Table, Key | None]:
    """Run a page's query; return its rows, and the key of the last one.

    `columns` are its (name, our type) pairs, in the query's order.
    """
    adbc = load_driver()
    try:
        with adbc.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            found = cursor.fetch_arrow_table()
    except adbc_driver_manager.Error as error:
        raise _named(error) from error
    arrays = [
        _fitted(found.column(place), name, text) for place, (name, text) in enumerate(columns)
    ]
    page = pa.Table.from_arrays(arrays, schema=page_schema(columns))
    texts = found.select(range(len(columns), found.num_columns))
    return page, last_key(key, page, texts)


def _arrow_type(text: str) -> pa.DataType:
    name, _, rest = text.partition("(")
    if name in ("text", "other"):
        return pa.string()
    if name != "numeric":
        return _FIXED[text]
    precision, scale = rest.rstrip(")").split(",")
    return pa.decimal128(int(precision), int(scale))


def _fitted(values: pa.ChunkedArray, name: str, text: str) -> pa.ChunkedArray:
    """Return a column in its type; refuse a value that has no place in it."""
    wanted = _arrow_type(text)
    if pa.types.is_decimal(wanted):
        return _decimals(values, name, text, wanted)
    if values.type != wanted:
        raise SourceRefused(
            f"column {name} was {text} and arrives as {values.type}: it was retyped"
        )
    if pa.types.is_date32(wanted):
        return _unwrapped(values, pa.int32(), 1, name, text)
    if pa.types.is_timestamp(wanted):
        return _unwrapped(values, pa.int64(), _DAY_MICROS, name, text)
    return values


def _unwrapped(
    values: pa.ChunkedArray, integer: pa.DataType, day: int, name: str, text: str
) -> pa.ChunkedArray:
    """Put infinities that ran over back to the ends of the integers; refuse all else that did."""
    numbers, first, end = values.cast(integer), _FIRST_DAY * day, 2 ** (integer.bit_width - 1)
    ends: Any = pc.min_max(numbers).as_py()
    if ends["max"] == end - 1:
        raise ValueDoesNotFit(name, text, "it is after the year 294246")
    if ends["min"] is None or ends["min"] >= first:
        return values
    infinity = pa.scalar(_START_DAY * day - end - 1, integer)
    minus_infinity = pa.scalar(_START_DAY * day - end, integer)
    for wrapped, put in ((infinity, end - 1), (minus_infinity, -end)):
        numbers = pc.if_else(pc.equal(numbers, wrapped), pa.scalar(put, integer), numbers)
    strange = pc.and_(pc.less(numbers, first), pc.greater(numbers, pa.scalar(-end, integer)))
    if pc.any(strange).as_py():
        raise ValueDoesNotFit(name, text, "it is after the year 294246")
    return numbers.cast(values.type)


def _decimals(
    values: pa.ChunkedArray, name: str, text: str, wanted: pa.DataType
) -> pa.ChunkedArray:
    # The driver gives numeric as text in an opaque type of its own.
    if not isinstance(values.type, pa.BaseExtensionType):
        raise SourceRefused(
            f"column {name} was {text} and arrives as {values.type}: it was retyped"
        )
    strings = pa.chunked_array([chunk.storage for chunk in values.chunks], pa.string())
    try:
        return strings.cast(wanted)
    except pa.ArrowInvalid as error:
        raise ValueDoesNotFit(name, text, str(error).partition("\n")[0]) from error


def _named(error: adbc_driver_manager.Error) -> Exception:
    state = error.sqlstate or ""
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, adbc_driver_manager.OperationalError) and not state:
        return SourceUnreachable(f"a page could not be read: {text}")
    if state[:2] in _PASSING:
        return SourceUnreachable(f"a page could not be read: {text}")
    return SourceRefused(f"a page was refused: {text}")
