"""What a half-backfilled table shows of the changes; the cases of the reference engine."""

import pytest

from ops.backfill.cdc.mark_cdc_chunk import Event, mark_cdc_chunk
from ops.backfill.cdc.offset import PostgresOffset
from ops.backfill.mark_chunk import Completed, InProgress, NotStarted, VnodeProgress, mark_chunk
from ops.common.change import Change, Delete, Insert, Row, Update


def key_of(row: Row) -> tuple[int]:
    return (row[0],)


def vnode_of(key: tuple[int, ...]) -> int:
    return key[0] % 2


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (Update((4,), (7,)), [Delete((4,))]),
        (Update((7,), (4,)), [Insert((4,))]),
        (Update((6,), (8,)), []),
        (Update((4, "a"), (4, "b")), [Update((4, "a"), (4, "b"))]),
        (Update(None, (5, "b")), [Update(None, (5, "b"))]),
        (Update(None, (6, "b")), []),
        (Insert((5,)), [Insert((5,))]),
        (Delete((6,)), []),
    ],
)
def test_at_position_5(change: Change, shown: list[Change]) -> None:
    progress: dict[int, VnodeProgress] = {0: InProgress((5,))}
    found = list(mark_chunk([change], progress, key_of=key_of, vnode_of=lambda _: 0))
    assert found == shown


def test_each_half_is_judged_by_its_own_vnode() -> None:
    progress: dict[int, VnodeProgress] = {0: Completed(), 1: NotStarted()}
    moved = [Update((2,), (3,)), Update((3,), (2,))]
    found = list(mark_chunk(moved, progress, key_of=key_of, vnode_of=vnode_of))
    assert found == [Delete((2,)), Insert((2,))]
    assert list(mark_chunk([Insert((1,))], {}, key_of=key_of, vnode_of=vnode_of)) == []


def test_the_buffer_of_the_reference_engine() -> None:
    """At position 10, low 100; what is ahead of the position is not shown, what was restored is."""
    events: list[Event] = [
        (PostgresOffset(90), Insert((1,))),
        (PostgresOffset(100), Insert((2,))),
        (PostgresOffset(101), Insert((3,))),
        (PostgresOffset(102), Insert((20,))),
        (PostgresOffset(103), Insert((4,))),
    ]
    found = list(mark_cdc_chunk(events, (10,), low=PostgresOffset(100), key_of=key_of))
    assert found == [Insert((2,)), Insert((3,)), Insert((4,))]
    assert list(mark_cdc_chunk(events, None, low=None, key_of=key_of)) == []
    assert len(list(mark_cdc_chunk(events, (10,), low=None, key_of=key_of))) == 4
