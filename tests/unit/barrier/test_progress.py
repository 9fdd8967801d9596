"""What may be reported, and in which order."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ops.barrier_manager.cdc_progress import CdcProgress, CdcProgressReporter
from ops.barrier_manager.progress import (
    ConsumingLogStore,
    ConsumingSnapshot,
    CreateMviewProgressReporter,
    DoneLogStore,
    DoneSnapshot,
)
from ops.common.epoch import Epoch
from ops.common.errors import ProgressWentBack, WrongGeneration

E = Epoch(100)


@pytest.fixture
def view() -> CreateMviewProgressReporter:
    return CreateMviewProgressReporter("v")


def test_the_whole_way(view: CreateMviewProgressReporter) -> None:
    view.update(E, 10)
    view.update(E, 10)
    view.update(E, 25)
    assert view.state == ConsumingSnapshot(E, 25)
    view.finish(25)
    assert view.state == DoneSnapshot(25)
    view.update_create_mview_log_store_progress(7)
    view.update_create_mview_log_store_progress(9)
    assert view.state == ConsumingLogStore(9)
    view.finish_consuming_log_store()
    assert view.state == DoneLogStore()


def test_resumed_after_its_snapshot(view: CreateMviewProgressReporter) -> None:
    view.update_create_mview_log_store_progress(3)
    view.finish_consuming_log_store()
    assert view.state == DoneLogStore()


def test_an_empty_snapshot(view: CreateMviewProgressReporter) -> None:
    view.finish(0)
    assert view.state == DoneSnapshot(0)


def test_a_second_finish_is_nothing(view: CreateMviewProgressReporter) -> None:
    view.finish(5)
    view.finish(9)
    assert view.state == DoneSnapshot(5)


@pytest.mark.parametrize(("epoch", "rows"), [(E, 9), (Epoch(99), 10)])
def test_rows_and_epoch_never_fall(
    view: CreateMviewProgressReporter, epoch: Epoch, rows: int
) -> None:
    view.update(E, 10)
    with pytest.raises(ProgressWentBack, match="view v reported"):
        view.update(epoch, rows)
    assert view.state == ConsumingSnapshot(E, 10)


def test_what_was_said_is_told_once() -> None:
    told: list[object] = []
    view = CreateMviewProgressReporter("v", report=told.append)
    view.update(E, 10)
    view.finish(10)
    view.finish(11)
    view.finish_consuming_log_store()
    view.finish_consuming_log_store()
    view.finish(12)
    assert told == [ConsumingSnapshot(E, 10), DoneSnapshot(10), DoneLogStore()]


Step = Callable[[CreateMviewProgressReporter], None]


@pytest.mark.parametrize(
    ("before", "then"),
    [
        (lambda v: v.finish(1), lambda v: v.update(E, 2)),
        (lambda v: v.update_create_mview_log_store_progress(1), lambda v: v.update(E, 2)),
        (lambda v: v.finish_consuming_log_store(), lambda v: v.update(E, 2)),
        (lambda v: v.update(E, 1), lambda v: v.update_create_mview_log_store_progress(1)),
        (lambda v: v.update(E, 1), lambda v: v.finish_consuming_log_store()),
        (lambda v: v.update(E, 5), lambda v: v.finish(4)),
        (
            lambda v: v.finish_consuming_log_store(),
            lambda v: v.update_create_mview_log_store_progress(1),
        ),
    ],
)
def test_what_comes_in_the_wrong_order(
    view: CreateMviewProgressReporter, before: Step, then: Step
) -> None:
    before(view)
    was = view.state
    with pytest.raises(ProgressWentBack):
        then(view)
    assert view.state == was


FIRST = CdcProgress(generation=2, splits=4, backfilled=2, completed=1, rows=100)


def test_a_table_goes_forward() -> None:
    reporter = CdcProgressReporter("t", FIRST)
    later = replace(FIRST, backfilled=3, completed=3, rows=150)
    assert reporter.report(later) and reporter.report(later)
    assert reporter.last == later


@pytest.mark.parametrize("less", [{"backfilled": 1}, {"completed": 0}, {"rows": 99}])
def test_a_table_never_goes_back(less: dict[str, int]) -> None:
    reporter = CdcProgressReporter("t", FIRST)
    with pytest.raises(ProgressWentBack, match="table t"):
        reporter.report(replace(FIRST, **less))
    assert reporter.last == FIRST


@pytest.mark.parametrize("generation", [1, 3])
def test_another_generation_is_ignored(generation: int) -> None:
    reporter = CdcProgressReporter("t", FIRST)
    assert not reporter.report(replace(FIRST, generation=generation, rows=0))
    assert reporter.last == FIRST


@pytest.mark.parametrize("wrong", [{"backfilled": 5}, {"completed": 3}])
def test_more_than_there_is_is_refused(wrong: dict[str, int]) -> None:
    reporter = CdcProgressReporter("t", FIRST)
    with pytest.raises(ProgressWentBack, match="splits passed"):
        reporter.report(replace(FIRST, **wrong))
    assert reporter.last == FIRST


def test_generations_begin_anew_and_only_go_up() -> None:
    reporter = CdcProgressReporter("t", FIRST)
    with pytest.raises(WrongGeneration) as wrong:
        reporter.report(replace(FIRST, generation=0))
    assert (wrong.value.table, wrong.value.generation) == ("t", 0)
    with pytest.raises(WrongGeneration):
        reporter.restart(2, 4)
    reporter.restart(3, 8)
    assert not reporter.report(FIRST)
    assert reporter.report(CdcProgress(3, 8, 1, 0, 5))
    assert reporter.last == CdcProgress(3, 8, 1, 0, 5)
