"""Where a split of a table's backfill stands, as a row of the control store's `splits`.

    left_key, right_key    the split's bounds, as JSON lists of text; NULL is open
    cursor_key             the last key that was read; NULL before the first row
    rows, bytes, seconds   what was read and committed so far
    finished               the last page is committed
    watermark              epoch of the newest page's commit, whose message the stream must pass

Before migration 5 a key was one integer: `left_bound`, `right_bound`, and `next_key`, the least
that was not read yet. Such rows are read as they are, and go on with `cursor_key`.

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ops.backfill.cdc.split import Key
from ops.common.epoch import Epoch
from ops.common.table.relation import StagedFile


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read and is not committed yet; `attempt` is None if nothing was asked."""

    split_id: int
    file: StagedFile | None
    attempt: int | None
    rows: int
    bytes: int
    seconds: float
    cursor: Key | None
    finished: bool


@dataclass(frozen=True, slots=True)
class SplitState:
    split_id: int
    version: int
    left: Key | None
    right: Key | None
    cursor: Key | None
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    finished: bool = False
    watermark: Epoch | None = None

    @staticmethod
    def from_row(row: dict[str, Any]) -> "SplitState":
        left = _key(row.get("left_key")) or _old_key(row.get("left_bound"))
        return SplitState(
            row["split_id"],
            row.get("version", 2),
            left,
            _key(row.get("right_key")) or _old_key(row.get("right_bound")),
            _key(row.get("cursor_key")) or _old_cursor(row),
            row["rows"],
            row["bytes"],
            row["seconds"],
            row["finished"],
            row["watermark"],
        )

    def after(self, page: Page, epoch: Epoch | None) -> "SplitState":
        """Return the split once `page` is read; `epoch` is that of its commit, if it has come."""
        return replace(
            self,
            cursor=page.cursor,
            rows=self.rows + page.rows,
            bytes=self.bytes + page.bytes,
            seconds=self.seconds + page.seconds,
            finished=page.finished,
            watermark=self.watermark if epoch is None else epoch,
        )


def _key(parts: Sequence[str | None] | None) -> Key | None:
    """Return a key; one whose parts are all NULL is none, as the reference engine writes it."""
    if parts is None or all(part is None for part in parts):
        return None
    whole = tuple(part for part in parts if part is not None)
    if len(whole) != len(parts):
        raise ValueError(f"a stored key has a part that is NULL: {list(parts)}")
    return whole


def _old_key(bound: int | None) -> Key | None:
    return None if bound is None else (str(bound),)


def _old_cursor(row: dict[str, Any]) -> Key | None:
    least, left = row.get("next_key"), row.get("left_bound")
    return None if least is None or least == left else (str(least - 1),)
