"""What people are shown of a value is what Postgres prints, so it reads back as the value."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.pg_values import text_decoder
from ops.common.arrow import arrow_type
from ops.common.printed import printed, printed_rows
from ops.common.schema import DataType

FIRST_DAY = -2_440_588
DAYS = st.integers(FIRST_DAY, 2_145_042_905) | st.sampled_from([2**31 - 1, -(2**31)])
MICROS = st.integers(FIRST_DAY * 86_400_000_000, 2**63 - 1) | st.just(-(2**63))


def shown(value: Any, kind: str) -> Any:
    return printed(pa.chunked_array([pa.array([value], arrow_type(DataType.parse(kind)))]))[0]


@pytest.mark.parametrize(
    ("kind", "values"), [("date", DAYS), ("timestamp", MICROS), ("timestamptz", MICROS)]
)
def test_a_moment_reads_back(kind: str, values: st.SearchStrategy[int]) -> None:
    @given(values)
    def check(value: int) -> None:
        text = shown(value, kind)
        assert text_decoder(DataType.parse(kind))(text.encode()) == value

    reads_back: Callable[[], None] = check
    reads_back()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-800_000, "date", "0222-09-04 BC"),
        (2**31 - 1, "date", "infinity"),
        (1_709_210_096_789_000, "timestamp", "2024-02-29 12:34:56.789"),
        (1_709_210_096_000_000, "timestamptz", "2024-02-29 12:34:56+00"),
        (-62_135_596_800_000_001, "timestamptz", "0001-12-31 23:59:59.999999+00 BC"),
        (b"\x00\xff", "bytea", "\\x00ff"),
        (0.1, "float8", 0.1),
        (float("nan"), "float8", "NaN"),
        (float("-inf"), "float4", "-Infinity"),
        (None, "date", None),
        (True, "bool", True),
    ],
)
def test_it_is_what_postgres_prints(value: Any, kind: str, text: Any) -> None:
    assert shown(value, kind) == text


def test_rows_have_their_columns() -> None:
    table = pa.table({"a": pa.array([1, 2]), "b": pa.array([0, None], pa.date32())})
    assert printed_rows(table) == [{"a": 1, "b": "1970-01-01"}, {"a": 2, "b": None}]
