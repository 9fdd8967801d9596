"""Which changes a table under backfill v1 may already show: the reader has passed their key.

    event's offset   key                shown
    < low            any                no: what was restored has it
    >= low           <= position        yes
    >= low           > position, or no  no: a page that is read after the event brings what it did
                     position yet

Hiding an event that lies ahead is safe only because it was in the source before the page that will
pass its key is read. Each half of an update is judged alone, so that a row whose key moves across
the position arrives exactly once. Here the log keeps all events whatever they are, and supersedes
the pages; so this is the law of what may be *seen* while the table fills (`read --partial`), and of
nothing that is lost.

Pure.
"""

from collections.abc import Callable, Iterable, Iterator

from ops.backfill.cdc.offset import PostgresOffset
from ops.backfill.mark_chunk import InProgress, Key, NotStarted, VnodeProgress, mark_chunk
from ops.common.change import Change, Row

Event = tuple[PostgresOffset, Change]
_ALL = 0


def mark_cdc_chunk(
    events: Iterable[Event],
    position: Key | None,
    *,
    low: PostgresOffset | None,
    key_of: Callable[[Row], Key],
) -> Iterator[Change]:
    """Yield, in order, what may be seen of `events` once all keys up to `position` were read."""
    changes = (change for offset, change in events if low is None or low <= offset)
    progress: VnodeProgress = NotStarted() if position is None else InProgress(position)
    return mark_chunk(changes, {_ALL: progress}, key_of=key_of, vnode_of=lambda _: _ALL)
