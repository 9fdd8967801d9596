"""When a barrier is due, and of what kind."""

import itertools

import pytest

from ops.barrier_worker.schedule import Schedule
from ops.common.barrier import BarrierKind

SCHEDULE = Schedule(interval_s=1.0, idle_s=30.0)
CHECKPOINT, SYNC = BarrierKind.CHECKPOINT, BarrierKind.SYNC_CHECKPOINT


@pytest.mark.parametrize(
    ("since", "granted", "work", "expected"),
    [
        (0.0, True, True, None),
        (0.999, True, True, None),
        (1.0, True, True, CHECKPOINT),
        (5.0, True, False, None),
        (29.9, True, False, None),
        (30.0, True, False, CHECKPOINT),
        (30.0, True, True, CHECKPOINT),
        (1.0, False, True, None),
        (1e6, False, False, None),
    ],
)
def test_due(since: float, granted: bool, work: bool, expected: BarrierKind | None) -> None:
    due = SCHEDULE.due(since_last_s=since, granted=granted, work=work, commands=False)
    assert due is expected


def test_a_command_waits_for_nothing() -> None:
    for since, granted, work in itertools.product((0.0, 1.0, 99.0), (True, False), (True, False)):
        due = SCHEDULE.due(since_last_s=since, granted=granted, work=work, commands=True)
        assert due is SYNC
