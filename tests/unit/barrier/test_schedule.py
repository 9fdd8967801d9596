"""When a barrier is due, and of what kind."""

import itertools
from dataclasses import replace

import pytest

from ops.barrier_worker.schedule import Look, Schedule
from ops.common.barrier import BarrierKind

SCHEDULE = Schedule(interval_s=1.0, idle_s=30.0)
BARRIER, CHECKPOINT = BarrierKind.BARRIER, BarrierKind.CHECKPOINT
SYNC = BarrierKind.SYNC_CHECKPOINT


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
    assert SCHEDULE.due(Look(since, granted, work)) is expected


def test_a_command_waits_for_nothing() -> None:
    for since, *flags in itertools.product((0.0, 1.0, 99.0), *[(True, False)] * 3):
        granted, work, paused = flags
        look = Look(since, granted, work, commands=True, paused=paused, pending=1)
        assert SCHEDULE.due(look) is SYNC


def kinds(frequency: int, count: int) -> list[BarrierKind | None]:
    """Return what a source with work gets, one interval after another."""
    schedule, uncheckpointed, made = Schedule(1.0, 30.0, frequency), 0, []
    for _ in range(count):
        made.append(schedule.due(Look(1.0, True, True, uncheckpointed=uncheckpointed)))
        uncheckpointed = uncheckpointed + 1 if made[-1] is BARRIER else 0
    return made


@pytest.mark.parametrize("frequency", [1, 2, 3, 7])
def test_every_nth_is_a_checkpoint(frequency: int) -> None:
    cycle = [BARRIER] * (frequency - 1) + [CHECKPOINT]
    assert kinds(frequency, 3 * frequency) == cycle * 3


def test_a_lower_frequency_counts_at_once() -> None:
    gathered = Look(1.0, True, True, uncheckpointed=3)
    assert Schedule(1.0, 30.0, 9).due(gathered) is BARRIER
    assert Schedule(1.0, 30.0, 2).due(gathered) is CHECKPOINT


def test_what_must_be_carried_by_a_checkpoint_is() -> None:
    schedule = Schedule(1.0, 30.0, 9)
    assert schedule.due(Look(1.0, True, True, must_checkpoint=True)) is CHECKPOINT
    assert schedule.due(Look(0.5, True, True, must_checkpoint=True)) is None


def test_one_timer_barrier_is_pending_at_most() -> None:
    for look in (Look(99.0, True, True), Look(99.0, False, True, uncheckpointed=1)):
        assert SCHEDULE.due(look) is CHECKPOINT
        assert SCHEDULE.due(replace(look, pending=1)) is None


def test_without_a_grant_it_comes_to_rest_at_a_checkpoint() -> None:
    schedule = Schedule(3600.0, 30.0, 9)
    assert schedule.due(Look(0.0, False, True, uncheckpointed=2)) is CHECKPOINT
    assert schedule.due(Look(1e9, False, True)) is None


def test_a_full_source_waits_for_nothing_but_a_grant() -> None:
    schedule = Schedule(3600.0, 30.0, 9)
    assert schedule.due(Look(0.0, True, True, full=True)) is CHECKPOINT
    assert schedule.due(Look(0.0, False, True, full=True)) is None


def test_paused_nothing_is_due() -> None:
    look = Look(1e9, True, True, full=True, paused=True, must_checkpoint=True)
    assert SCHEDULE.due(look) is None


def test_an_interval_of_hours_is_kept() -> None:
    hourly = Schedule(interval_s=3600.0, idle_s=30.0)
    for work in (True, False):
        assert hourly.due(Look(3599.0, True, work)) is None
        assert hourly.due(Look(3600.0, True, work)) is CHECKPOINT
