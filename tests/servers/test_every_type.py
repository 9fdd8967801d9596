"""Every type through both ways: a page and the stream give the value that Postgres prints.

One table has a column of each type and a row for each of a type's values: edges written by hand and
as many made at random. Its rows are written twice, before the slot and after it; pages show both,
the stream the second.
"""

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from ops.backfill.cdc.pg_values import reads_binary
from ops.backfill.cdc.pgoutput import Decoder, RowChange
from ops.common.arrow import arrow_schema
from ops.common.change import Insert
from ops.common.schema import Column, Kind
from resources.postgres_slot import SlotInUse, SlotReader
from tests.support.every_type import types_of
from tests.support.source_place import Place, until


def test_page_and_stream_give_what_postgres_prints(versions: Place) -> None:
    place = versions
    plain, other = types_of(place)
    tables = {"plain": plain, "everything": {**plain, **other}}
    for table, types in tables.items():
        columns = ", ".join(f"c{i} {name}" for i, name in enumerate(types))
        place.run(f"CREATE TABLE {table} (id int8 PRIMARY KEY, {columns})")
        _insert(place, table, types, first=1)
    start = place.prepare(*tables)
    for table, types in tables.items():
        _insert(place, table, types, first=1001)
    for table, binary in (("plain", True), ("plain", False), ("everything", False)):
        text_numerics = table == "everything"
        schema = place.binding(table, text_numerics=text_numerics).schema
        assert reads_binary([schema]) is (table == "plain")
        streamed = _streamed(place, start, table, binary=binary)
        paged = place.page(table, text_numerics=text_numerics)
        assert paged.schema == streamed.schema == arrow_schema(schema.columns)
        half = paged.num_rows // 2
        assert streamed.num_rows == half
        printed = _printed(place, table, schema.columns)
        for position, column in enumerate(schema.columns[1:], start=1):
            name = f"{list(tables[table])[position - 1]} (binary {binary})"
            expected = printed[position]
            from_page, from_stream = paged.column(position), streamed.column(position)
            _require_same(f"{name}, page", _comparable(from_page[:half], column), expected)
            _require_same(f"{name}, page", _comparable(from_page[half:], column), expected)
            _require_same(f"{name}, stream", _comparable(from_stream, column), expected)


def _require_same(what: str, found: list[Any], expected: list[Any]) -> None:
    """Name the first that differ: the whole difference takes pytest minutes to draw."""
    differing = [(f, e) for f, e in zip(found, expected, strict=True) if f != e]
    if differing:
        pytest.fail(f"{what}: {differing[0]!r:.400}")


def _insert(place: Place, table: str, types: Mapping[str, list[str]], *, first: int) -> None:
    """Write a row for the n-th value of each type; a type that has fewer begins anew."""
    rows = max(len(values) for values in types.values())
    lines = []
    for n in range(rows):
        cells = [
            "NULL" if n == len(v) and name != "whole_again" else v[n % len(v)]
            for name, v in types.items()
        ]
        lines.append(f"({first + n}, {', '.join(cells)})")
    place.run(f"INSERT INTO {table} VALUES {', '.join(lines)}")


def _streamed(place: Place, start: int, table: str, *, binary: bool) -> pa.Table:
    """Return the rows the stream brings of a table; the slot stays where it was."""
    reader = _reader(place, start, binary=binary)
    binding = place.binding(table, text_numerics=table == "everything")
    decoder = Decoder({("public", table): binding}, binary=binary)
    rows = []
    for event in place.rows(reader, decoder):
        assert isinstance(event, RowChange) and isinstance(event.change, Insert), event
        rows.append(event.change.row)
    reader.close()
    wanted = arrow_schema(binding.schema.columns)
    by_column = zip(*sorted(rows, key=lambda row: int(row[0])), strict=True)
    arrays = [pa.array(list(c), f.type) for c, f in zip(by_column, wanted, strict=True)]
    return pa.Table.from_arrays(arrays, schema=wanted)


def _reader(place: Place, start: int, *, binary: bool) -> SlotReader:
    found: list[SlotReader] = []

    def read_again() -> bool:
        try:
            found.append(place.reader(start, binary=binary))
        except SlotInUse:
            return False
        return True

    until(read_again)
    return found[0]


def _printed(place: Place, table: str, columns: Sequence[Column]) -> list[list[Any]]:
    """Return what Postgres prints of each column, read without any of our code."""
    shown = ", ".join(map(_shown, columns))
    query = f"SELECT {shown} FROM {table} WHERE id < 1000 ORDER BY id"
    with psycopg.connect(place.source.dsn(), autocommit=True) as connection:
        found = connection.pgconn.exec_(query.encode())
        assert found.error_message == b""
        texts = [[found.get_value(n, i) for n in range(found.ntuples)] for i in range(len(columns))]
    return [
        [None if text is None else _expected(bytes(text).decode(), column) for text in values]
        for column, values in zip(columns, texts, strict=True)
    ]


def _shown(column: Column) -> str:
    match column.type.kind:
        case Kind.DATE:
            return _or_infinity(column.name, f"{column.name} - date '1970-01-01'")
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _or_infinity(column.name, f"(extract(epoch FROM {column.name}) * 1000000)::int8")
        case _:
            return column.name


def _or_infinity(name: str, finite: str) -> str:
    return f"CASE WHEN isfinite({name}) THEN ({finite})::text ELSE {name}::text END"


def _expected(text: str, column: Column) -> Any:
    match column.type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8:
            return int(text)
        case Kind.FLOAT4:
            return struct.pack(">f", float(text)) if text != "NaN" else "NaN"
        case Kind.FLOAT8:
            return struct.pack(">d", float(text)) if text != "NaN" else "NaN"
        case Kind.NUMERIC:
            return Decimal(text)
        case Kind.BOOL:
            return {"t": True, "f": False}[text]
        case Kind.BYTEA:
            return bytes.fromhex(text[2:])
        case Kind.DATE:
            return {"infinity": 2**31 - 1, "-infinity": -(2**31)}.get(text) or int(text)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return {"infinity": 2**63 - 1, "-infinity": -(2**63)}.get(text) or int(text)
        case _:
            return text


def _comparable(values: pa.ChunkedArray, column: Column) -> list[Any]:
    match column.type.kind:
        case Kind.FLOAT4 | Kind.FLOAT8:
            code = ">f" if column.type.kind is Kind.FLOAT4 else ">d"
            found = values.to_pylist()
            return [v if v is None else "NaN" if v != v else struct.pack(code, v) for v in found]
        case Kind.DATE:
            return list(values.cast(pa.int32()).to_pylist())
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return list(values.cast(pa.int64()).to_pylist())
        case _:
            return list(values.to_pylist())
