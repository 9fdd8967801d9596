"""A row has one checksum at the source and in the lake, whatever its types; so has a range."""

import math
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ops.backfill.cdc.verify.canonical import postgres_hash, spark_hash
from ops.backfill.cdc.verify.compare import place_column
from ops.backfill.cdc.verify.ranges import KeyRange, as_text, cut, place_of
from ops.common.schema import INT8, Column, Schema
from resources.checksums import ChecksumRefused, SparkChecksums
from resources.embedded.postgres import RunningPostgres
from resources.lake import Lake
from tests.support.source_place import TYPES, Place

# Each row differs from the others in one column at least; NULLs and the ends of each type.
ROWS = """INSERT INTO t VALUES
  (1, NULL, 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (2, 32767, 2147483647, 0, 0, 0, 0, '', '', '', true, '1970-01-01', '1970-01-01', '1970-01-01'),
  (3, -32768, -2147483648, -0.01, -0.000000000000000001, -1.5, 1, 'N', 'N', 'N', false,
   '4713-01-01 BC', '4713-01-01 BC', '4713-01-01 BC'),
  (4, 1, 1, 9999999999.99, 99999999999999999999.999999999999999999, 1e-18,
   99999999999999999999999999999999999999, E'a\\x1fb', E'\\x1f', 'a', NULL,
   '9999-12-31', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999+00'),
  (5, 1, 1, 1.10, 1.1, 1.10, 10, 'Straße 漢字 🜨', ' x ', ' x ', NULL, '0001-01-01',
   '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999+02'),
  (9223372036854775807, 0, 0, 100, 100, 1e10, 5, E'line\\nline\\t\\\\', '%s {} $1', 'abcde', true,
   '2024-02-29', '2024-03-31 02:30:00.000001', '2024-03-31 02:30:00.5+05:30')"""


@pytest.fixture
def source(postgres: RunningPostgres) -> Iterator[Place]:
    name = "checksums"
    postgres.ensure_database(name)
    place = Place(postgres, name)
    yield place
    place.close()


MORE = """CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN price AS numeric(10, 2);
CREATE TABLE t (id int8 PRIMARY KEY, small float4, wide float8, raw bytea, feels mood, two pair,
  cost price, tag uuid, doc json, docs jsonb, many text[], span int4range, mask bit varying(9),
  at time, at_z timetz, took interval, host inet, cash money, day date, moment timestamp,
  instant timestamptz, "odd "" {} name" text)"""
MORE_ROWS = """INSERT INTO t VALUES
  (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL),
  (2, 0, -0.0, '', 'sad', ROW(NULL, NULL), 1.5, '00000000-0000-0000-0000-000000000000', '{ }',
   '{"b":1,"a":[]}', '{}', 'empty', '', '00:00', '24:00+05', '0', '10.0.0.1/8', 1.5, 'infinity',
   'infinity', '-infinity', ''),
  (3, 'NaN', '-Infinity', '\\x00ff', 'ok', ROW(1, 'x"y'), 0, NULL, '[1, 1.0]', '1e400',
   '{NULL,"a"}', '[1,5)', '101', '23:59:59.999999', '00:00-12', '-1 mon 3 days 00:00:01.5',
   '::1', -7, '-infinity', '-infinity', 'infinity', 'é'),
  (4, 0.1, 0.1, 'a', NULL, NULL, -1.25, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, '4713-01-01 BC', '4713-01-01 BC', '294246-12-31', E'\\x1f'),
  (5, 3.4028235e38, 1.7976931348623157e308, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, '178000000 years', NULL, NULL, '5874897-12-31', '294246-12-31', NULL, NULL),
  (6, 1e-45, 2.5e-323, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL),
  (7, 16777216, 9007199254740993, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (8, 2e-3, 2.2250738585072014e-308, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (9, -1.17549435e-38, 1e23, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
   NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""


def checksums(spark: SparkSession, place: Place, schema: Schema) -> SparkChecksums:
    hashed = postgres_hash(schema.columns)
    key = place.source.key_columns("public", "t", schema.key)
    return SparkChecksums(spark, place.source, "public", "t", key, hashed, 2)


@pytest.mark.parametrize(
    ("statements", "rows"),
    [([f"CREATE TABLE t ({TYPES})", ROWS], 6), ([*MORE.split(";"), MORE_ROWS], 9)],
    ids=["plain", "rest"],
)
def test_every_type_has_one_checksum(
    spark: SparkSession, source: Place, lake: Lake, statements: list[str], rows: int
) -> None:
    source.run(*statements)
    schema = source.binding("t").schema
    page = source.page("t")
    lake.write("page.parquet", page)
    ids = [(i,) for i in page.column("id").to_pylist()]
    ranges = [KeyRange(low, high) for low, high in zip(ids, [*ids[1:], None], strict=True)]
    asked = checksums(spark, source, schema).take(
        [(as_text(r.lower), as_text(r.upper)) for r in ranges], limit=10
    )
    frame = spark.read.parquet(lake.uri("page.parquet"))
    found = frame.orderBy("id").select(F.expr(spark_hash(schema.columns)).alias("hash")).toArrow()
    assert [(1, h) for h in found.column("hash").to_pylist()] == [(c.rows, c.total) for c in asked]
    assert len(set(asked)) == len(ids) == rows


def test_what_the_lake_has_no_place_for_is_no_error(spark: SparkSession, source: Place) -> None:
    source.run(
        f"CREATE TABLE t ({TYPES})",
        "INSERT INTO t (id, middle, free) VALUES (1, 1, 'NaN'), "
        "(2, 1, 0.1234567890123456789), (3, 1, 0.123456789012345678), (4, 1, 1e100)",
    )
    schema = source.binding("t").schema
    taken = checksums(spark, source, schema).take(
        [(("1",), ("2",)), (("2",), ("3",)), (("3",), ("4",)), (("4",), None), (None, None)],
        limit=10,
    )
    assert [c.rows for c in taken] == [1, 1, 1, 1, 4]
    assert len({c.total for c in taken}) == 5 and sum(c.total for c in taken[:4]) == taken[4].total
    key = source.source.key_columns("public", "t", ["id"])
    with pytest.raises(ChecksumRefused, match="does not exist"):
        SparkChecksums(spark, source.source, "public", "gone", key, "1", 1).take(
            [(None, None)], limit=1
        )


def test_a_statement_reads_no_more_than_its_limit(spark: SparkSession, source: Place) -> None:
    source.run("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b))")
    source.run("INSERT INTO t SELECT i / 10, i % 10 FROM generate_series(0, 99) AS i")
    schema = source.binding("t").schema
    ranges = [(("0", "5"), ("1", "2")), (None, ("3", "3")), (("9", "9"), None)]
    taken = checksums(spark, source, schema).take(ranges, limit=20)
    assert [c.rows for c in taken] == [7, 20, 1]


def test_a_row_has_one_place(spark: SparkSession) -> None:
    schema = Schema((Column("a", INT8), Column("b", INT8)), ("a", "b"))
    keys = [(a, b) for a in range(-3, 9) for b in range(3)]
    ranges = cut(KeyRange(), keys, count=11)
    table = pa.table({"a": [a for a, _ in keys], "b": [b for _, b in keys]})
    placed = spark.createDataFrame(table).select("a", "b", place_column(schema, ranges).alias("p"))
    found = {(r["a"], r["b"]): r["p"] for r in placed.toArrow().to_pylist()}
    assert found == {key: place_of(key, ranges) for key in keys}
    assert max(found.values()) == 10 and math.isclose(len(keys) / 11, 3, abs_tol=1)
