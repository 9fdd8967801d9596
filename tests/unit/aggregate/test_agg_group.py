"""The law of a group, row by row, against a recompute from scratch."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.aggregate.agg_group import AggGroup, infer_change
from ops.common.change import Change, Delete, Insert, Row, Update
from ops.common.errors import NegativeRowCount
from ops.common.schema import INT8, NUMERIC, TEXT, Column, DataType, Kind, Schema
from tests.support.model import recompute
from tests.support.views import agg_view, call_values

TABLE = Schema(
    (
        Column("id", INT8),
        Column("region", TEXT),
        Column("small", DataType(Kind.INT2)),
        Column("wide", NUMERIC),
    ),
    ("id",),
)
VIEW = agg_view(
    "SELECT region, count(*) AS n, count(small) AS smalls, sum(small) AS small_sum, "
    "sum(wide) AS wide_sum FROM t GROUP BY region",
    TABLE,
)
MEMBERS = st.fixed_dictionaries(
    {
        "small": st.none() | st.integers(-32_768, 32_767),
        "wide": st.none() | st.decimals(-(10**19), 10**19, places=18),
    }
)


def group() -> AggGroup:
    return AggGroup(VIEW, ("north",))


def fresh(members: list[dict[str, Any]]) -> Row | None:
    rows = [(i, "north", m["small"], m["wide"]) for i, m in enumerate(members)]
    return recompute(VIEW, TABLE, rows).get(("north",))


@given(st.lists(MEMBERS, max_size=8), st.data())
def test_it_equals_a_recompute_after_any_retractions(
    members: list[dict[str, Any]], data: st.DataObject
) -> None:
    state = group()
    for member in members:
        state.apply(call_values(VIEW, member), 1)
    assert state.output(1) == fresh(members)
    left = list(members)
    while left and data.draw(st.booleans()):
        gone = left.pop(data.draw(st.integers(0, len(left) - 1)))
        state.apply(call_values(VIEW, gone), -1)
        assert state.output(1) == fresh(left)


@given(st.lists(MEMBERS, max_size=5), st.lists(MEMBERS, max_size=5))
def test_insert_then_retract_is_nothing(
    members: list[dict[str, Any]], passing: list[dict[str, Any]]
) -> None:
    state, plain = group(), group()
    for member in members:
        plain.apply(call_values(VIEW, member), 1)
        state.apply(call_values(VIEW, member), 1)
    for sign in (1, -1):
        for member in passing:
            state.apply(call_values(VIEW, member), sign)
    assert state == plain
    assert infer_change(plain.output(1), state.output(1)) is None


def test_a_sum_is_null_when_its_last_value_is_gone() -> None:
    state = group()
    state.apply(call_values(VIEW, {"small": None, "wide": None}), 1)
    state.apply(call_values(VIEW, {"small": 5, "wide": Decimal("0.5")}), 1)
    assert state.output(1) == ("north", 2, 1, 5, Decimal("0.5"))
    state.apply(call_values(VIEW, {"small": 5, "wide": Decimal("0.5")}), -1)
    assert state.output(1) == ("north", 1, 0, None, None)


def test_a_sum_of_zero_is_not_null() -> None:
    state = group()
    for value in (5, -5):
        state.apply(call_values(VIEW, {"small": value, "wide": None}), 1)
    assert state.output(1) == ("north", 2, 2, 0, None)


def test_thirty_eight_digits_are_kept() -> None:
    state = group()
    for value in ("12345678901234567890.000000000000000001", "0.000000000000000002"):
        state.apply(call_values(VIEW, {"small": None, "wide": Decimal(value)}), 1)
    found = state.output(1)
    assert found is not None
    assert found[4] == Decimal("12345678901234567890.000000000000000003")


def test_a_negative_group_is_named() -> None:
    state = group()
    state.apply(call_values(VIEW, {"small": 1, "wide": None}), -1)
    with pytest.raises(NegativeRowCount) as refused:
        state.output(77)
    error = refused.value
    assert (error.view, error.group, error.count, error.epoch) == ("v", ("north",), -1, 77)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (None, None, None),
        (None, (1,), Insert((1,))),
        ((1,), None, Delete((1,))),
        ((1,), (1,), None),
        ((1,), (2,), Update((1,), (2,))),
        ((1, None), (1, None), None),
        ((1, None), (1, 0), Update((1, None), (1, 0))),
    ],
)
def test_infer_change(before: Row | None, after: Row | None, change: Change | None) -> None:
    assert infer_change(before, after) == change
