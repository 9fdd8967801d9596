"""Ranges cover every key of their whole and never overlap, whatever the sample was."""

from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.verify.ranges import KeyRange, cut, place_of, waves

KEYS = st.tuples(st.integers(-20, 20), st.integers(0, 3))
ENDS = st.one_of(st.none(), KEYS)


@given(ENDS, ENDS, st.lists(KEYS), st.integers(1, 12), st.lists(KEYS), st.integers(1, 4))
def test_each_key_lies_in_exactly_one_range(
    lower: tuple[int, int] | None,
    upper: tuple[int, int] | None,
    sample: list[tuple[int, int]],
    count: int,
    keys: list[tuple[int, int]],
    size: int,
) -> None:
    whole = KeyRange(lower, upper)
    ranges = cut(whole, sample, count=count)
    assert 1 <= len(ranges) <= count
    for key in keys:
        holding = [place for place, r in enumerate(ranges) if key in r]
        assert holding == ([place_of(key, ranges)] if key in whole else [])
    dealt = waves(ranges, size=size)
    assert [r for wave in dealt for r in wave] == list(ranges)


@given(st.lists(KEYS, unique=True, min_size=40), st.integers(1, 8))
def test_ranges_are_of_like_size(sample: list[tuple[int, int]], count: int) -> None:
    ranges = cut(KeyRange(), sample, count=count)
    sizes = [sum(key in r for key in sample) for r in ranges]
    assert len(ranges) == count and max(sizes) - min(sizes) <= 2
