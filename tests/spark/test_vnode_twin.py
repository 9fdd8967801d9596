"""`vnode_column` and `vnode_of` are one law: the same key, the same vnode, in Spark and without."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ops.common.arrow import arrow_type
from ops.common.columns import vnode_column
from ops.common.schema import Column, DataType, Kind, spark_type
from ops.common.vnode import vnode_of
from resources.lake import Lake

COUNT = 32_768
INF = float("inf")
VALUES: dict[DataType, list[Any]] = {
    DataType(Kind.INT2): [0, 1, -1, 32_767, -32_768],
    DataType(Kind.INT4): [0, 7, -7, 2**31 - 1, -(2**31)],
    DataType(Kind.INT8): [0, 42, -42, 2**63 - 1, -(2**63)],
    DataType(Kind.FLOAT4): [0.0, -0.0, 1.0, -0.5, 1.401298464324817e-45, float("nan"), INF, -INF],
    DataType(Kind.FLOAT8): [
        0.0,
        -0.0,
        0.1,
        5e-324,
        1.7976931348623157e308,
        float("nan"),
        INF,
        -INF,
    ],
    DataType(Kind.BYTEA): [b"", b"\0", b"a\xff", b"\x1f"],
    DataType(Kind.OTHER, name="uuid"): ["00000000-0000-0000-0000-000000000000"],
    DataType(Kind.TEXT, name="public.citext"): ["A", "a"],
    DataType(Kind.BOOL): [True, False],
    DataType(Kind.TEXT): ["", "a", "\0", "\x1f", "Straße", "漢字", "🜨", " x ", "NULL", "1\x1f2"],
    DataType(Kind.NUMERIC, 12, 2): [Decimal(t) for t in ("0", "1.5", "1.50", "-0.01", "-99.90")],
    DataType(Kind.NUMERIC, 38, 0): [Decimal(t) for t in ("0", "9" * 38, "-" + "9" * 38, "1E+30")],
    DataType(Kind.NUMERIC, 38, 18): [
        Decimal(t)
        for t in (
            "0",
            "1E-18",
            "-1E-18",
            "0.000000100000000000",
            "99999999999999999999.999999999999999999",
            "-12345678901234567890.100000000000000000",
            "100",
        )
    ],
    DataType(Kind.NUMERIC, 38, 38): [Decimal("1E-38"), Decimal("-0." + "9" * 38), Decimal(0)],
    DataType(Kind.DATE): [date(1, 1, 1), date(1582, 10, 4), date(1970, 1, 1), date(9999, 12, 31)],
    DataType(Kind.TIMESTAMP): [
        datetime(1, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(2024, 3, 31, 2, 30, 0, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ],
    DataType(Kind.TIMESTAMPTZ): [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2024, 3, 31, 2, 30, 0, 1, tzinfo=UTC),
    ],
}
MICROS = [-(2**63), -210_866_803_200_000_000, -1, 0, 1, 9_000_000_000_000_000_000, 2**63 - 1]
# What the decoder gives: dates and times as integers, also where Python has no date for them.
DECODED: dict[DataType, list[int]] = {
    DataType(Kind.DATE): [
        -(2**31),
        2**31 - 1,
        -2_440_588,
        -719_529,
        -1,
        0,
        19_782,
        2_932_897,
        100_000_000,
    ],
    DataType(Kind.TIMESTAMP): MICROS,
    DataType(Kind.TIMESTAMPTZ): MICROS,
}


def vnodes(
    spark: SparkSession, lake: Lake, columns: tuple[Column, ...], rows: list[tuple[Any, ...]]
) -> list[int]:
    """Return what Spark says of rows that lie in a file, in order."""
    arrays = [pa.array([row[i] for row in rows], arrow_type(c.type)) for i, c in enumerate(columns)]
    table = pa.Table.from_arrays([*arrays, pa.array(range(len(rows)))], [*_names(columns), "n"])
    lake.write("rows.parquet", table)
    ddl = ", ".join(f"`{c.name}` {spark_type(c.type)}" for c in columns)
    frame = spark.read.schema(f"{ddl}, n BIGINT").parquet(lake.uri("rows.parquet"))
    found = frame.orderBy("n").select(vnode_column(columns, COUNT).alias("vnode"))
    return [int(v) for v in found.toArrow().column("vnode").to_pylist()]


def _names(columns: tuple[Column, ...]) -> list[str]:
    return [c.name for c in columns]


@pytest.mark.parametrize("source", [VALUES, DECODED], ids=["values", "decoded"])
def test_every_type_agrees(
    spark: SparkSession, lake: Lake, source: dict[DataType, list[Any]]
) -> None:
    """One row per value, one column per type: the others are NULL, which is a part of the key."""
    columns = tuple(Column(f"c {t}", t) for t in source)
    rows = [
        tuple(value if column.type == data_type else None for column in columns)
        for data_type, values in source.items()
        for value in (*values, None)
    ]
    expected = [vnode_of(row, columns, COUNT) for row in rows]
    assert vnodes(spark, lake, columns, rows) == expected
    assert len(set(expected)) > len(set(map(repr, rows))) * 0.8, "they differ at all"


def test_composite_keys_agree(spark: SparkSession, lake: Lake) -> None:
    columns = (Column("a", DataType(Kind.INT4)), Column("b", DataType(Kind.TEXT)))
    rows = [(a, b) for a in (None, 0, 1, 12) for b in (None, "", "0", "2\x1f", "\0")]
    expected = [vnode_of(row, columns, COUNT) for row in rows]
    assert vnodes(spark, lake, columns, rows) == expected
