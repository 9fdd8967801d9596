"""How a table's integer key is cut into ranges that are read independently.

    split 1        split 2          split n
    (-∞, b1)       [b1, b2)   …     [b(n-1), +∞)

The outer splits are open, so that a key outside the bounds seen at planning time still belongs to
exactly one split. Widths follow the number of rows, not the span of the ids: one stray id of
10**18 costs empty splits, at most `max_splits` of them, and never a plan that explodes.

Pure.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CdcTableSnapshotSplit:
    """Keys from `left` (inclusive) to `right` (exclusive); None is unbounded. Ids count from 1."""

    split_id: int
    left: int | None
    right: int | None

    def __contains__(self, key: int) -> bool:
        return (self.left is None or self.left <= key) and (self.right is None or key < self.right)


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
        return (CdcTableSnapshotSplit(1, None, None),)
    if high < low:
        raise ValueError(f"the highest key {high} is less than the lowest {low}")
    span = high - low + 1
    wanted = -(-max(estimated_rows, 1) // rows_per_split)
    count = min(wanted, span, max_splits)
    cuts = [low + span * i // count for i in range(1, count)]
    lefts, rights = [None, *cuts], [*cuts, None]
    return tuple(
        CdcTableSnapshotSplit(number, left, right)
        for number, (left, right) in enumerate(zip(lefts, rights, strict=True), start=1)
    )


def vnode_of_split(split_id: int, vnode_count: int) -> int:
    """Return the partition that reports this split: here a vnode is a share of the splits."""
    return (split_id - 1) % vnode_count
