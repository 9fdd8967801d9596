"""The Arrow type of each of our types takes the values that rows hold."""

from decimal import Decimal

import pyarrow as pa
import pytest

from ops.common.arrow import arrow_schema, arrow_type
from ops.common.schema import Column, DataType


@pytest.mark.parametrize(
    ("text", "expected", "value"),
    [
        ("int2", pa.int16(), -1),
        ("int4", pa.int32(), -1),
        ("int8", pa.int64(), -1),
        ("numeric(12,2)", pa.decimal128(12, 2), Decimal("-1.50")),
        ("text", pa.string(), "☃"),
        ("bool", pa.bool_(), True),
        ("date", pa.date32(), -719_162),
        ("timestamp", pa.timestamp("us"), -1),
        ("timestamptz", pa.timestamp("us", tz="UTC"), -1),
    ],
)
def test_each_type(text: str, expected: pa.DataType, value: object) -> None:
    found = arrow_type(DataType.parse(text))
    assert found == expected
    assert pa.array([value, None], found).null_count == 1


def test_schema() -> None:
    columns = (Column("id", DataType.parse("int8"), nullable=False),)
    assert arrow_schema(columns) == pa.schema([pa.field("id", pa.int64())])
