"""Which upstream changes a half-backfilled table may already show.

A change is forwarded only if the snapshot has passed its key; a later snapshot read
carries the rest. Judging each half of an update alone is what lets a row whose key moves
across the position arrive exactly once.

    vnode          change visible when
    NotStarted     never
    InProgress     key <= position
    Completed      always

Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from ops.common.change import Change, Delete, Insert, Row, Update

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No snapshot row of this vnode has been read."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """Every snapshot row of this vnode up to and including `position` has been read."""

    position: Key


@dataclass(frozen=True, slots=True)
class Completed:
    """The snapshot of this vnode has been read to its end."""


VnodeProgress = NotStarted | InProgress | Completed


def is_visible(key: Key, progress: VnodeProgress) -> bool:
    match progress:
        case NotStarted():
            return False
        case InProgress(position):
            return key <= position
        case Completed():
            return True
        case _:
            assert_never(progress)


def mark_chunk(
    changes: Iterable[Change],
    progress: Mapping[int, VnodeProgress],
    *,
    key_of: Callable[[Row], Key],
    vnode_of: Callable[[Key], int],
) -> Iterator[Change]:
    """Yield, in order, what may be forwarded now; drop what the snapshot will still read."""

    def visible(row: Row) -> bool:
        key = key_of(row)
        return is_visible(key, progress.get(vnode_of(key), NotStarted()))

    for change in changes:
        match change:
            case Insert(row) | Delete(row):
                if visible(row):
                    yield change
            case Update(before, after):
                if before is None:
                    # Without a before image the key is the same.
                    if visible(after):
                        yield change
                    continue
                match visible(before), visible(after):
                    case True, True:
                        yield change
                    case True, False:
                        yield Delete(before)
                    case False, True:
                        yield Insert(after)
            case _:
                assert_never(change)
