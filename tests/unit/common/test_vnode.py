"""A key's vnode is written into log files: it must never change, and never depend on who asks."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.common.schema import Column, DataType, Kind
from ops.common.vnode import encode_part, vnode_of

TYPES: dict[str, DataType] = {kind.value: DataType(kind) for kind in Kind}
TYPES["numeric"] = DataType(Kind.NUMERIC, 38, 18)


def vnode(*parts: tuple[str, Any], count: int = 32_768) -> int:
    columns = tuple(Column(f"c{i}", TYPES[kind]) for i, (kind, _) in enumerate(parts))
    return vnode_of(tuple(value for _, value in parts), columns, count)


# Seen once and written down: a release that gives others would read the wrong rows.
PINNED = [
    ([("int8", 0)], 10_745),
    ([("int8", -1)], 1_766),
    ([("int8", 2**63 - 1)], 30_625),
    ([("text", "Straße")], 369),
    ([("text", None)], 7_946),
    ([("bool", True)], 25_001),
    ([("numeric", Decimal("1.50"))], 30_766),
    ([("date", date(2024, 2, 29))], 744),
    ([("timestamp", datetime(2024, 2, 29, 1, 2, 3, 4))], 14_113),
    ([("int4", 7), ("text", None), ("text", "")], 22_313),
    ([("float8", 0.1)], 17_899),
    ([("float8", float("nan"))], 7_483),
    ([("float4", 1.5)], 25_312),
    ([("bytea", b"\x00\xff")], 9_022),
    ([("other", "00000000-0000-0000-0000-000000000000")], 2_086),
    ([("date", 2**31 - 1)], 24_746),
    ([("timestamptz", -(2**63))], 7_907),
]


@pytest.mark.parametrize(("key", "expected"), PINNED, ids=lambda p: str(p)[:40])
def test_pinned(key: list[tuple[str, Any]], expected: int) -> None:
    assert vnode(*key) == expected


def test_null_is_a_part_of_its_own() -> None:
    assert encode_part(None, TYPES["text"]) != encode_part("", TYPES["text"])
    assert encode_part(None, TYPES["int8"]) != encode_part(0, TYPES["int8"])
    assert vnode(("text", None), ("text", "a")) != vnode(("text", "a"), ("text", None))


def test_zeros_are_one_key() -> None:
    for kind in ("float4", "float8"):
        assert encode_part(-0.0, TYPES[kind]) == encode_part(0.0, TYPES[kind])


def test_parts_do_not_run_into_each_other() -> None:
    assert vnode(("text", "ab"), ("text", "c")) != vnode(("text", "a"), ("text", "bc"))


@given(st.dates())
def test_a_date_is_its_days(day: date) -> None:
    days = (day - date(1970, 1, 1)).days
    assert encode_part(day, TYPES["date"]) == encode_part(days, TYPES["date"]) == str(days)


@given(st.datetimes())
def test_a_timestamp_is_its_microseconds(moment: datetime) -> None:
    micros = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert encode_part(moment, TYPES["timestamp"]) == str(micros)
    assert encode_part(micros, TYPES["timestamp"]) == str(micros)


def test_a_moment_is_the_same_in_every_zone() -> None:
    moment = datetime(2024, 1, 1, 12, tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert encode_part(moment, TYPES["timestamptz"]) == encode_part(elsewhere, TYPES["timestamptz"])


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [
        ("1.5", 2, "1.50"),
        ("1.50", 2, "1.50"),
        ("-0.00", 2, "0.00"),
        ("0", 18, "0.000000000000000000"),
        ("1E-18", 18, "0.000000000000000001"),
        ("-99999999999999999999.999999999999999999", 18, None),
        ("9" * 38, 0, None),
    ],
)
def test_a_numeric_has_all_its_digits(value: str, scale: int, text: str | None) -> None:
    data_type = DataType(Kind.NUMERIC, 38, scale)
    assert encode_part(Decimal(value), data_type) == (text or value)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 32_768))
def test_it_is_below_the_count(value: int, count: int) -> None:
    assert 0 <= vnode(("int8", value), count=count) < count


def test_integer_keys_spread() -> None:
    found = {vnode(("int8", n), count=16) for n in range(200)}
    assert found == set(range(16))
