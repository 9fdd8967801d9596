"""`is_passed` and `is_visible` are one law: which keys a reader has passed."""

from datetime import date, timedelta
from itertools import product

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ops.backfill.cdc.mark_cdc_chunk_column import UUID, is_passed, shares_order
from ops.backfill.mark_chunk import InProgress, is_visible
from ops.common.schema import INT8, TEXT, Column, DataType, Kind

FIRST = date(1969, 12, 30)
COLUMNS = (Column("a", INT8), Column("b c", TEXT), Column("d", DataType(Kind.DATE)))
KEYS = [
    (a, b, FIRST + timedelta(days=d))
    for a, b, d in product((-9, 5, 10), ("", "B", "a", "a'", "ä", "😀"), range(3))
]


def in_order(key: tuple[int, str, date]) -> tuple[int, bytes, date]:
    return key[0], key[1].encode(), key[2]


def test_the_twins_agree(spark: SparkSession) -> None:
    table = pa.table({c.name: [k[i] for k in KEYS] for i, c in enumerate(COLUMNS)})
    rows = spark.createDataFrame(table)
    chosen = KEYS[::5]
    marks = [
        is_passed(COLUMNS, [str(part) for part in key]).alias(str(n))
        for n, key in enumerate(chosen)
    ]
    found = rows.select("*", *marks, is_passed(COLUMNS, None).alias("none")).toArrow().to_pylist()
    assert len(found) == len(KEYS)
    for row in found:
        key = (row["a"], row["b c"], row["d"])
        for n, position in enumerate(chosen):
            expected = is_visible(in_order(key), InProgress(in_order(position)))
            assert row[str(n)] == expected, (key, position)
        assert row["none"] is False
    inside = rows.select(F.struct(*(F.col(f"`{c.name}`") for c in COLUMNS)).alias("key"))
    last = [str(part) for part in max(KEYS, key=in_order)]
    assert inside.where(is_passed(COLUMNS, last, path="key")).count() == len(KEYS)


def test_only_keys_in_the_source_s_order() -> None:
    mood = Column("m", DataType(Kind.TEXT, name="public.mood"))
    assert shares_order(COLUMNS, [True, True, True])
    assert not shares_order(COLUMNS, [True, False, True])
    assert not shares_order([mood], [True]), "an enum has an order of its own"
    assert shares_order([Column("u", UUID)], [True])
    assert not shares_order([Column("t", DataType(Kind.TIMESTAMPTZ))], [True])
