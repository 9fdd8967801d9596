"""The one string that says how far a backfill is."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.barrier_manager.cdc_progress import CdcProgress
from ops.barrier_manager.progress import (
    BackfillState,
    ConsumingLogStore,
    ConsumingSnapshot,
    DoneLogStore,
    DoneSnapshot,
)
from ops.barrier_worker.tracker import CdcTableTracker, CreateMviewProgressTracker
from ops.common.epoch import Epoch
from ops.common.errors import ProgressWentBack, WrongGeneration

E = Epoch(100 << 16)


def test_the_way_of_a_view() -> None:
    tracker = CreateMviewProgressTracker("v", 1000)
    assert tracker.progress() is None
    said: list[tuple[BackfillState, str]] = [
        (ConsumingSnapshot(E, 0), "Snapshot [0.00% (0/1000)]"),
        (ConsumingSnapshot(E, 420), "Snapshot [42.00% (420/1000)]"),
        (ConsumingSnapshot(E, 1000), "Snapshot [99.99% (1000/1000)]"),
        (ConsumingSnapshot(E, 1200), "Snapshot [99.99% (1200/1200)]"),
        (DoneSnapshot(1200), "Snapshot finished"),
        (ConsumingLogStore(3200 << 16), "LogStore [lag 3.2 s]"),
        (ConsumingLogStore(400 << 16), "LogStore [lag 0.4 s]"),
    ]
    for state, shown in said:
        tracker.report(state)
        assert tracker.progress() == shown and not tracker.finished
    tracker.finishing = True
    assert tracker.progress() == "Finishing [lag 0.4 s]"
    tracker.report(DoneLogStore())
    assert tracker.progress() == "100%" and tracker.finished


def test_a_snapshot_nobody_counted_is_unknown() -> None:
    tracker = CreateMviewProgressTracker("v", None)
    tracker.report(ConsumingSnapshot(E, 5))
    assert tracker.progress() is None
    tracker.report(DoneSnapshot(5))
    assert tracker.progress() == "Snapshot finished"


def test_an_empty_snapshot() -> None:
    tracker = CreateMviewProgressTracker("v", 0)
    tracker.report(ConsumingSnapshot(E, 0))
    assert tracker.progress() == "Snapshot [99.99% (0/0)]"


@given(st.integers(0, 50), st.lists(st.integers(0, 60), max_size=12))
def test_a_view_never_goes_back(total: int, rows: list[int]) -> None:
    tracker, most, shown = CreateMviewProgressTracker("v", total), -1, -1.0
    for count in rows:
        if count < most:
            with pytest.raises(ProgressWentBack):
                tracker.report(ConsumingSnapshot(E, count))
        else:
            tracker.report(ConsumingSnapshot(E, count))
            most = count
        found = re.search(r"([0-9.]+)%", tracker.progress() or "")
        assert found is not None
        assert 100 > float(found[1]) >= shown
        shown = float(found[1])


def test_the_way_of_a_table() -> None:
    tracker = CdcTableTracker("t", 1, 4)
    said = [
        ((0, 0), "0.00% (0/4 splits)"),
        ((1, 0), "25.00% (1/4 splits)"),
        ((3, 2), "75.00% (3/4 splits)"),
        ((4, 3), "99.99% (4/4 splits, 3 passed)"),
        ((4, 4), "99.99% (4/4 splits, 4 passed)"),
    ]
    for (read, passed), shown in said:
        assert not tracker.pre_completed
        assert tracker.report(CdcProgress(1, 4, read, passed, read * 10))
        assert tracker.progress() == shown
    assert tracker.pre_completed and not tracker.completed
    assert not tracker.report(CdcProgress(1, 4, 0, 0, 0)), "after the last nothing counts"
    tracker.complete()
    assert tracker.progress() == "100%"


def test_a_table_without_splits_is_unknown() -> None:
    assert CdcTableTracker("t", 1, 0).progress() is None


def test_generations_of_a_table() -> None:
    tracker = CdcTableTracker("t", 2, 4)
    assert tracker.report(CdcProgress(2, 4, 2, 0, 10))
    assert not tracker.report(CdcProgress(1, 4, 4, 4, 99))
    assert not tracker.report(CdcProgress(3, 4, 4, 4, 99))
    with pytest.raises(WrongGeneration):
        tracker.report(CdcProgress(0, 4, 4, 4, 99))
    assert tracker.progress() == "50.00% (2/4 splits)"
