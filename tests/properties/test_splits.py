"""Splits cover every integer and never overlap (DESIGN 12, invariant 6)."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.split import (
    CdcTableSnapshotSplit,
    Key,
    even_splits,
    is_dense,
    scan_order,
    splits_at,
    vnode_of_split,
)

INT8 = st.integers(-(2**63), 2**63 - 1)
SIZES = st.integers(1, 10**12)
CAPS = st.integers(1, 300)


def number(key: Key) -> int:
    (part,) = key
    return int(part)


def holds(split: CdcTableSnapshotSplit, key: int) -> bool:
    return (split.left is None or number(split.left) <= key) and (
        split.right is None or key < number(split.right)
    )


@given(INT8, INT8, st.integers(0, 10**12), SIZES, CAPS)
def test_neighbours_meet_and_the_ends_are_open(
    one: int, other: int, rows: int, size: int, cap: int
) -> None:
    splits = even_splits(
        min(one, other), max(one, other), estimated_rows=rows, rows_per_split=size, max_splits=cap
    )
    assert [s.split_id for s in splits] == list(range(1, len(splits) + 1))
    assert splits[0].left is None and splits[-1].right is None
    for left, right in itertools.pairwise(splits):
        assert left.right == right.left is not None
    cuts = [number(s.right) for s in splits if s.right is not None]
    assert cuts == sorted(set(cuts)), "a cut that does not rise makes an empty or inverted split"


@given(INT8, INT8, st.integers(0, 10**6), st.integers(1, 1000), CAPS, st.lists(INT8))
def test_every_key_is_in_exactly_one_split(
    one: int, other: int, rows: int, size: int, cap: int, keys: list[int]
) -> None:
    splits = even_splits(
        min(one, other), max(one, other), estimated_rows=rows, rows_per_split=size, max_splits=cap
    )
    edges = [
        number(cut) + d
        for s in splits
        for cut in (s.left, s.right)
        if cut is not None
        for d in (-1, 0)
    ]
    for key in [*keys, one, other, *edges]:
        assert sum(holds(split, key) for split in splits) == 1


@given(INT8, INT8, st.integers(0, 10**18), SIZES, CAPS)
def test_sparse_ids_do_not_explode(one: int, other: int, rows: int, size: int, cap: int) -> None:
    splits = even_splits(
        min(one, other), max(one, other), estimated_rows=rows, rows_per_split=size, max_splits=cap
    )
    assert len(splits) <= min(cap, rows // size + 1, abs(one - other) + 1)


def test_even_ids_give_even_splits() -> None:
    splits = even_splits(1, 1_000_000, estimated_rows=10**6, rows_per_split=10**5, max_splits=64)
    assert [s.left for s in splits] == [
        None,
        *((str(cut),) for cut in range(100_001, 1_000_000, 100_000)),
    ]


def test_an_empty_table_is_one_split() -> None:
    splits = even_splits(None, None, estimated_rows=0, rows_per_split=10, max_splits=4)
    assert splits == (CdcTableSnapshotSplit(1, None, None),)


@pytest.mark.parametrize(("size", "cap"), [(0, 1), (1, 0)])
def test_nonsense_sizes_are_refused(size: int, cap: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        even_splits(1, 2, estimated_rows=1, rows_per_split=size, max_splits=cap)


def test_splits_are_dealt_out_to_vnodes_in_turn() -> None:
    assert [vnode_of_split(i, 4) for i in range(1, 7)] == [0, 1, 2, 3, 0, 1]


@given(st.lists(st.tuples(st.text(), st.text()), unique=True, max_size=20))
def test_cuts_of_any_kind_become_splits_that_meet(cuts: list[Key]) -> None:
    splits = splits_at(cuts)
    assert [s.left for s in splits] == [None, *cuts]
    assert [s.right for s in splits] == [*cuts, None]
    assert [s.split_id for s in splits] == list(range(1, len(cuts) + 2))


def test_a_cut_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two cuts are the same key"):
        splits_at([("a", "1"), ("b", "1"), ("a", "1")])


def test_sparse_or_uncounted_ids_are_sampled() -> None:
    assert is_dense(None, None, None), "an empty table is one split"
    assert is_dense(1, 1000, 900) and is_dense(1, 1000, 50)
    assert not is_dense(1, 1000, 49) and not is_dense(1, 1000, None)


def test_the_split_column_is_read_first() -> None:
    assert scan_order(("a", "b", "c"), 0) == ("a", "b", "c")
    assert scan_order(("a", "b", "c"), 1) == ("b", "a", "c")
    assert scan_order(("a", "b", "c"), 2) == ("c", "a", "b")
