"""Keys of any type, judged by Postgres: splits cover and never overlap, pages walk in its order."""

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest
from psycopg import sql

from ops.backfill.cdc.split import splits_at
from resources.embedded.postgres import RunningPostgres
from resources.key_range import Key, KeyColumn, key_order, key_range, last_key
from resources.postgres_link import SourceRefused
from resources.postgres_page import page_dsn, page_query, read_page
from tests.support.source_place import Place

ROWS = 300
SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN short AS varchar(12) COLLATE \"C\" CHECK (value <> '')",
    "CREATE TYPE pair AS (x int, y text)",
)
# Texts that need quoting. (The embedded server knows no collation but those of the bytes; that its
# order is not ours is told by the other types, whose order is not that of their text.)
WORDS = "(ARRAY['a', 'B', 'ä', 'Z', '''', '\\', '%s', 'é', ' ', '😀'])[1 + i % 10]"
TABLES = {
    "int2": ("a int2", "i - 150"),
    "text": ("a text", f"{WORDS} || i"),
    "text, by code point": ('a text COLLATE "pg_c_utf8"', f"{WORDS} || i"),
    "text, C": ('a text COLLATE "C"', f"{WORDS} || i"),
    "char": ("a char(8)", f"{WORDS} || i"),
    "domain": ("a short", f"{WORDS} || i"),
    "uuid": ("a uuid", "md5(i::text)::uuid"),
    "numeric": ("a numeric", "CASE i WHEN 1 THEN 'NaN'::numeric ELSE i / 7.0 - 20 END"),
    "float8": ("a float8", "CASE i WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE i / 7.0 END"),
    "date": ("a date", "CASE i WHEN 1 THEN 'infinity' ELSE '0001-02-03 BC'::date + i END"),
    "timestamptz": ("a timestamptz", "'2024-01-01'::timestamptz + i * interval '1.000001 s'"),
    "interval": ("a interval", "i * interval '1 mon 2 days' - interval '90 days'"),
    "bytea": ("a bytea", "decode(md5(i::text), 'hex')"),
    "inet": ("a inet", "'10.0.0.0'::inet + i"),
    "int4[]": ("a int4[]", "ARRAY[i % 7, i]"),
    "composite type": ("a pair", "ROW(i % 7, i)::pair"),
    "int, text": ("a int4, b text", f"i % 7, {WORDS} || i"),
    "enum, uuid": ("a mood, b uuid", "(enum_range(NULL::mood))[1 + i % 3], md5(i::text)::uuid"),
    "bool, text, int": ('a bool, b text COLLATE "pg_c_utf8", c int8', f"i % 2 = 0, {WORDS}, i"),
}


@pytest.fixture(scope="module")
def place(postgres: RunningPostgres) -> Iterator[Place]:
    name = "key_ranges"
    postgres.ensure_database(name)
    place = Place(postgres, name)
    place.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", *SETUP)
    for number, (columns, values) in enumerate(TABLES.values()):
        key = ", ".join(f'"{chr(ord("a") + i)}"' for i, _ in enumerate(columns.split(", ")))
        place.run(
            f"CREATE TABLE t{number} ({columns}, n int NOT NULL, PRIMARY KEY ({key}))",
            f"INSERT INTO t{number} SELECT {values}, i FROM generate_series(1, {ROWS}) AS i",
            f"ANALYZE t{number}",
        )
    yield place
    place.close()


@pytest.fixture(params=range(len(TABLES)), ids=list(TABLES))
def table(request: pytest.FixtureRequest) -> str:
    return f"t{request.param}"


def columns_of(place: Place, table: str, *, first: int = 0) -> tuple[KeyColumn, ...]:
    names = place.connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
        "AND attname <> 'n' ORDER BY attnum",
        [table],
    ).fetchall()
    key = [str(row[0]) for row in names]
    return place.source.key_columns("public", table, [key[first], *key[:first], *key[first + 1 :]])


def rows_where(place: Place, table: str, condition: sql.Composable) -> set[int]:
    query = sql.SQL("SELECT n FROM {} WHERE {}").format(sql.Identifier(table), condition)
    with place.source.session() as session:
        return {row["n"] for row in session.connection.execute(query)}


def test_sampled_splits_cover_and_never_overlap(place: Place, table: str) -> None:
    for first in range(len(columns_of(place, table))):
        key = columns_of(place, table, first=first)
        sample = place.source.sample_keys("public", table, key, rows_per_split=40, max_splits=100)
        assert sample.estimated_rows == ROWS
        splits = splits_at(sample.cuts)
        assert len(splits) == 8
        parts = [
            rows_where(place, table, key_range(key, at_least=s.left, below=s.right)) for s in splits
        ]
        assert set.union(*parts) == set(range(1, ROWS + 1))
        assert sum(map(len, parts)) == ROWS
        assert all(30 <= len(part) <= 45 for part in parts), [len(part) for part in parts]


def test_pages_walk_it_in_the_source_s_order(place: Place, table: str) -> None:
    key = columns_of(place, table)
    left, right = place.source.sample_keys(
        "public", table, key, rows_per_split=100, max_splits=100
    ).cuts
    found: list[int] = []
    cursor: Key | None = None
    for _ in range(100):
        names = {"varchar": "text", "bpchar": "text"}
        plain = [(c.name, names.get(c.type_name, c.type_name)) for c in key if c.is_plain]
        columns = [("n", "int4"), *plain]
        query = page_query(
            "public",
            table,
            columns,
            key,
            at_least=left if cursor is None else None,
            above=cursor,
            below=right,
            limit=9,
        )
        page, last = read_page(page_dsn(place.source), query, columns, key)
        found += page.column("n").to_pylist()
        if page.num_rows < 9:
            break
        cursor = last
    order = sql.SQL("SELECT n FROM {} WHERE {} ORDER BY {}").format(
        sql.Identifier(table), key_range(key, at_least=left, below=right), key_order(key)
    )
    expected = [row[0] for row in place.connection.execute(order)]
    assert found == expected and len(expected) == 100


def test_a_page_is_an_index_range_scan(place: Place, table: str) -> None:
    """Sorting is not: it would read the rest of the table for each page."""
    key = columns_of(place, table)
    left, right = place.source.sample_keys(
        "public", table, key, rows_per_split=100, max_splits=100
    ).cuts
    query = page_query("public", table, [("n", "int4")], key, above=left, below=right, limit=9)
    plan = explained(place, query)
    assert "Index Scan" in plan and "Index Cond" in plan, plan
    assert "Sort" not in plan and "Filter" not in plan, plan
    # Both ends of the range are for the index to find.
    (condition,) = [line for line in plan.splitlines() if "Index Cond" in line]
    assert ">" in condition and "<" in condition, plan


def explained(place: Place, query: str) -> str:
    with place.source.session() as session:
        # A table this small is cheaper to sort; what is asked is whether the index could do it.
        session.connection.execute("SET enable_seqscan = off")
        session.connection.execute("SET enable_bitmapscan = off")
        rows = session.connection.execute(f"EXPLAIN (COSTS OFF) {query}".encode()).fetchall()
    return "\n".join(str(row["QUERY PLAN"]) for row in rows)


def test_a_bound_on_the_first_column_alone(place: Place) -> None:
    """Even splits of a composite key: the other columns are left to the cursor."""
    table = f"t{list(TABLES).index('int, text')}"
    key = columns_of(place, table)
    parts = [
        rows_where(place, table, key_range(key, at_least=low, below=high))
        for low, high in itertools.pairwise([None, ("2",), ("5",), None])
    ]
    assert set.union(*parts) == set(range(1, ROWS + 1)) and sum(map(len, parts)) == ROWS
    bounds = place.source.key_bounds("public", table, key[0])
    assert (bounds.is_integer, bounds.low, bounds.high) == (True, 0, 6)
    both = rows_where(place, table, key_range(key, above=("4", "\\"), at_most=("5", "a")))
    with place.source.session() as session:
        asked = session.connection.execute(
            f"SELECT n FROM {table} WHERE a = 4 AND b > E'\\\\' OR a = 5 AND b <= 'a'".encode()
        )
        assert both == {row["n"] for row in asked}


def test_the_types_are_seen_through_domains_and_collations(place: Place) -> None:
    def first(name: str) -> KeyColumn:
        return columns_of(place, f"t{list(TABLES).index(name)}")[0]

    assert (first("domain").type_name, first("domain").bytewise) == ("varchar", True)
    assert first("text, C").bytewise and first("text, by code point").bytewise
    assert not first("char").bytewise, "its blanks at the end do not count"
    assert first("uuid").bytewise and not first("uuid").is_plain
    assert first("int2").is_integer and first("char").is_plain


def test_a_filter_leaves_rows_out(place: Place) -> None:
    key = columns_of(place, "t0")
    only = "n % 3 = 0 -- the third part"
    columns = [("n", "int4"), ("a", "int2")]
    query = page_query("public", "t0", columns, key, only=only, limit=1000)
    page, _ = read_page(page_dsn(place.source), query, columns, key)
    assert page.num_rows == ROWS // 3
    # Whatever it says, it does not reach beyond the range.
    only = "t0.n = 1) OR (TRUE"
    query = page_query("public", "t0", columns, key, at_least=("0",), only=only, limit=1000)
    page, _ = read_page(page_dsn(place.source), query, columns, key)
    assert page.num_rows == ROWS - 149 and "Index Cond" in explained(place, query)


@pytest.mark.parametrize("wrong", ["nobody = 1", "n", "TRUE); DROP TABLE t0; --", ""])
def test_a_filter_that_is_none_is_refused(place: Place, wrong: str) -> None:
    with pytest.raises(SourceRefused, match=r"snapshot\.filter of public\.t0 is refused"):
        place.source.require_filter("public", "t0", wrong)
    place.source.require_filter("public", "t0", "n % 2 = 0 AND a IS NOT NULL -- half of them")
    assert place.connection.execute("SELECT count(*) FROM t0").fetchone() == (ROWS,)


def test_nonsense_is_refused(place: Place) -> None:
    key = columns_of(place, "t0")
    for wrong in ((), ("1", "2")):
        with pytest.raises(ValueError, match="a key of 1 columns cannot have the bound"):
            key_range(key, above=wrong)
    assert key_range(key).as_string(None) == "TRUE"
    assert last_key(key, pa.table({"a": []}), pa.table({})) is None
    with pytest.raises(ValueError, match="column a is part of a key and NULL"):
        last_key(key, pa.table({"a": [1, None]}), pa.table({}))
