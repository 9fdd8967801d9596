"""Keys of every type: what the stream says of them, laid over a page, is the next page.

Among the values of a type are some that Postgres calls equal and that are not the same bytes: an
update from one to the other is sent with its old key, so whatever we hold for the same stays true.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from ops.backfill.cdc.pg_values import NAN, reads_binary
from ops.backfill.cdc.pgoutput import Decoder, RowChange
from ops.common.change import Change, Row
from ops.common.schema import Schema
from ops.common.table.net import Key, net_changes
from ops.common.vnode import vnode_of
from tests.support.every_type import MADE_FROM, is_available
from tests.support.source_place import Place

KEYS = {
    # The first two are equal in Postgres where it can tell them apart at all.
    "numeric": ["1.0", "1.00", "0", "-2.5"],
    "float8": ["'-0'", "0", "'NaN'", "'-Infinity'", "0.1"],
    "float4": ["0", "'-0'", "'NaN'", "0.1"],
    "interval": ["'1 day'", "'24:00'", "'0'", "'1 mon'"],
    "char(5)": ["'a'", "'a '", "''", "' a'"],
    "inet": ["'1.2.3.4'", "'1.2.3.4/32'", "'1.2.3.4/24'", "'::1'"],
    "text": ["'a'", "'A'", "'é'", "'☃\U0001f600'"],
    "uuid": [f"'0000000{n}-0000-0000-0000-000000000000'" for n in range(4)],
    "bytea": ["''", "'\\x00'", "'\\x1f'", "'\\xff00'"],
    "mood": ["'sad'", "'very happy ☃'"],
    "time": ["'00:00'", "'24:00'", "'01:02:03.5'"],
    "timetz": ["'12:00+00'", "'13:00+01'", "'00:00+00'"],
    "date": ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'1970-01-01'"],
    "timestamp": ["'infinity'", "'-infinity'", "'10000-01-01'", "'1970-01-01'"],
    "timestamptz": ["'infinity'", "'-infinity'", "'1890-01-01'", "'1970-01-01 00:00:00.5'"],
    "bool": ["true", "false"],
    "price": ["1.5", "0"],
    "jsonb": ["'{\"a\": 1.0}'", "'{\"a\": 1.00}'", "'null'"],
    "int4[]": ["'{1,2}'", "'{}'", "'{NULL}'"],
    "int4range": ["'[1,3)'", "'[1,2]'", "'empty'"],
    "varbit": ["B''", "B'0'", "B'00'"],
    "pair": ["ROW(1, 'a')", "ROW(1, NULL)", "ROW(NULL, NULL)"],
}
WHERE_ICU_IS = {
    "text COLLATE caseless": ["'a'", "'A'", "'b'", "''"],
    'text COLLATE "und-x-icu"': ["'a'", "'A'", "'ä'", "'z'"],
}
CASELESS = (
    "CREATE COLLATION caseless (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
)


@pytest.mark.parametrize("full", [False, True])
def test_events_over_a_page_are_the_next_page(versions: Place, full: bool) -> None:
    place, keys = versions, dict(KEYS)
    place.run(MADE_FROM)
    with suppress(psycopg.errors.FeatureNotSupported):
        place.run(CASELESS)
        keys |= WHERE_ICU_IS
    if is_available(place, "citext"):
        place.run("CREATE EXTENSION citext")
        keys["citext"] = ["'a'", "'A'", "'b'"]
    tables = {f"t{number}": types for number, types in enumerate(keys.items())}
    for table, (data_type, values) in tables.items():
        place.run(
            f"CREATE TABLE {table} (k {data_type}, id int4, v int4, PRIMARY KEY (id, k))",
            f"INSERT INTO {table} VALUES "
            + ", ".join(f"({value}, {n}, 0)" for n, value in enumerate(values)),
        )
        if full:
            place.run(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
    bound = place.bound(*tables)
    reader = place.reader(place.prepare(*tables), binary=False)
    before = {table: _rows(place, table) for table in tables}
    for table, (_, values) in tables.items():
        one, other, last = values[0], values[1], values[-1]
        place.run(
            f"UPDATE {table} SET v = 1 WHERE id = 0",
            f"UPDATE {table} SET k = {other} WHERE id = 0",
            f"UPDATE {table} SET k = {one}, v = 2 WHERE id = 1",
            f"INSERT INTO {table} VALUES ({one}, 7, 3), ({last}, 8, 3), ({last}, 9, 3)",
            f"UPDATE {table} SET k = {last} WHERE id = 7",
            f"DELETE FROM {table} WHERE id = 8",
            f"UPDATE {table} SET id = 8 WHERE id = 9",
            f"DELETE FROM {table} WHERE id = {len(values) - 1} AND id > 1",
        )
    changes: dict[str, list[Change]] = {table: [] for table in tables}
    for event in place.rows(reader, Decoder(bound, binary=False)):
        assert isinstance(event, RowChange), event
        changes[event.table[1]].append(event.change)
    assert not reads_binary(b.schema for b in bound.values())
    for table, (data_type, _) in tables.items():
        schema = bound["public", table].schema
        rows = _by_key(before[table], schema)
        net = net_changes(changes[table], lambda row, at=schema: _key(row, at))  # type: ignore[misc]
        for key, change in net.items():
            rows.pop(key, None)
            if change.new is not None:
                rows[key] = change.new
        assert _written(rows.values()) == _written(_rows(place, table)), data_type
        same = [key for key in rows if key in net]
        assert same and all(
            vnode_of(_key(rows[key], schema), schema.key_columns, 64)
            == vnode_of(key, schema.key_columns, 64)
            for key in same
        )


def test_minus_zero_and_zero_are_one_key_and_so_is_nan() -> None:
    for one, other in ((0.0, -0.0), (NAN, NAN)):
        assert {(one,): 1} == {(other,): 1}


def _rows(place: Place, table: str) -> list[Row]:
    """Return a page's rows as the stream would give them."""
    columns = []
    for values in place.page(table).columns:
        if pa.types.is_date32(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        columns.append([NAN if v != v else v for v in values.to_pylist()])
    return list(zip(*columns, strict=True))


def _by_key(rows: Sequence[Row], schema: Schema) -> dict[Key, Row]:
    return {_key(row, schema): row for row in rows}


def _key(row: Row, schema: Schema) -> Key:
    return tuple(row[i] for i in schema.key_positions)


def _written(rows: Any) -> list[str]:
    """A NaN is not equal to itself, and -0.0 is equal to 0.0: compare what is written."""
    return sorted(map(repr, rows))
