"""How a table's key is cut into ranges that are read independently.

    split 1        split 2          split n
    (-∞, b1)       [b1, b2)   …     [b(n-1), +∞)

The outer splits are open, so that a key outside of what was seen at planning time still belongs to
exactly one split. A bound is the text form of the key's parts, or of the first of them, and only
the source compares it: the cuts need to rise in its order and no other.

    even       integers, if they lie densely: widths follow the number of rows, not the span of the
               ids, and there are at most `max_splits`, so that no plan explodes
    sampled    all else: keys that the source finds at equal distances in a sample of its blocks

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Key = tuple[str, ...]
"""The text form of a key's parts, as the source writes and reads them."""

SPARSE = 20
"""Ids with more than so many gaps to a row are cut by a sample: even cuts would miss the rows."""


@dataclass(frozen=True, slots=True)
class CdcTableSnapshotSplit:
    """Keys from `left` (inclusive) to `right` (exclusive); None is unbounded. Ids count from 1."""

    split_id: int
    left: Key | None
    right: Key | None


def even_splits(
    low: int | None,
    high: int | None,
    *,
    estimated_rows: int,
    rows_per_split: int,
    max_splits: int,
) -> tuple[CdcTableSnapshotSplit, ...]:
    """Return splits of about `rows_per_split` rows each, if ids are spread evenly in [low, high].

    `low` and `high` are None for an empty table, which is one split.
    """
    if rows_per_split < 1 or max_splits < 1:
        raise ValueError(f"{rows_per_split=} and {max_splits=} must be at least 1")
    if low is None or high is None:
        return splits_at(())
    if high < low:
        raise ValueError(f"the highest key {high} is less than the lowest {low}")
    span = high - low + 1
    wanted = -(-max(estimated_rows, 1) // rows_per_split)
    count = min(wanted, span, max_splits)
    return splits_at([(str(low + span * i // count),) for i in range(1, count)])


def splits_at(cuts: Sequence[Key]) -> tuple[CdcTableSnapshotSplit, ...]:
    """Return the splits between cuts that rise in the source's order."""
    if len(set(cuts)) != len(cuts):
        raise ValueError("two cuts are the same key: the split between them would be inverted")
    lefts, rights = [None, *cuts], [*cuts, None]
    return tuple(
        CdcTableSnapshotSplit(number, left, right)
        for number, (left, right) in enumerate(zip(lefts, rights, strict=True), start=1)
    )


def is_dense(low: int | None, high: int | None, rows: int | None) -> bool:
    """Whether even cuts will do; not where nobody knows how many rows there are."""
    if low is None or high is None:
        return True
    return rows is not None and high - low + 1 <= SPARSE * max(rows, 1)


def scan_order(key: Sequence[str], first: int) -> tuple[str, ...]:
    """Return the key's columns in the order in which they are read: column `first` leads."""
    return (key[first], *key[:first], *key[first + 1 :])


def vnode_of_split(split_id: int, vnode_count: int) -> int:
    """Return the partition that reports this split: here a vnode is a share of the splits."""
    return (split_id - 1) % vnode_count
