"""Ranges hold every key they were made from, are few, and lie in order, apart from each other."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ops.common.schema import INT8, NUMERIC, TEXT, DataType, Kind
from ops.common.table.key_range import LIMIT, KeyRanges, between, joined, overlap, ranges_of

INTS = st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 400)), min_size=1)
TEXTS = st.lists(st.text(max_size=3), min_size=1, max_size=60)


def order(value: int | str) -> int | bytes:
    return value.encode() if isinstance(value, str) else value


def holds(ranges: KeyRanges, value: int | str) -> bool:
    return any(order(a) <= order(value) <= order(b) for a, b in ranges)  # type: ignore[operator]


def check(ranges: KeyRanges | None, values: list[int] | list[str]) -> KeyRanges:
    assert ranges is not None and 1 <= len(ranges) <= LIMIT
    assert all(holds(ranges, value) for value in values)
    assert all(order(a) <= order(b) for a, b in ranges)  # type: ignore[operator]
    assert all(order(a[1]) < order(b[0]) for a, b in pairwise(ranges))  # type: ignore[operator]
    ends = {end for pair in ranges for end in pair}
    assert ends <= set(values), "no wider than the keys"
    return ranges


@given(INTS)
def test_integers(values: list[int]) -> None:
    check(ranges_of(values, INT8), values)


@given(TEXTS)
def test_text_in_the_order_of_its_bytes(values: list[str]) -> None:
    check(ranges_of(values, TEXT), values)


@given(INTS, INTS)
def test_joined_and_overlapping(one: list[int], other: list[int]) -> None:
    a, b = ranges_of(one, INT8), ranges_of(other, INT8)
    assert a is not None and b is not None
    check(joined([a, b]), [*one, *other])
    if set(one) & set(other):
        assert overlap(a, b) and overlap(b, a)
    apart = max(one) < min(other) or max(other) < min(one)
    assert not (apart and overlap(a, b))


def test_clusters_are_kept_apart() -> None:
    clusters = [range(n * 10_000, n * 10_000 + 50) for n in range(LIMIT)]
    found = ranges_of([key for cluster in clusters for key in cluster], INT8)
    assert found == tuple((c[0], c[-1]) for c in clusters)


def test_where_there_can_be_none() -> None:
    assert ranges_of([1, None], INT8) is None
    assert ranges_of([], INT8) is None
    assert ranges_of([1], NUMERIC) is None
    assert ranges_of([1], DataType(Kind.BOOL)) is None
    assert between(1, 9, INT8) == ((1, 9),) and between("a", "b", TEXT) == (("a", "b"),)
    assert between(1, 9, NUMERIC) is None and between("a", "b", INT8) is None
    assert joined([((1, 2),), None]) is None and joined([]) is None
