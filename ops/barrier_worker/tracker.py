"""How far a backfill is, as one string for people: it never goes back, and is None where unknown.

    view    Snapshot [42.00% (420/1000)] ▶ Snapshot finished ▶ LogStore [lag 3.2 s]
            ▶ Finishing [lag 0.4 s] ▶ 100%
    table   25.00% (1/4 splits) ▶ 99.99% (4/4 splits, 3 passed) ▶ 100%

A snapshot that turns out larger than it was counted stays at 99.99% until it is finished. A new
generation of a table's splits begins at nothing; a report of another one is ignored.

Pure.
"""

from dataclasses import dataclass, field

from ops.barrier_manager.cdc_progress import CdcProgress, CdcProgressReporter
from ops.barrier_manager.progress import (
    BackfillState,
    ConsumingLogStore,
    ConsumingSnapshot,
    CreateMviewProgressReporter,
    DoneLogStore,
    DoneSnapshot,
)
from ops.common.epoch import SHIFT

ALMOST = 99.99
DONE = "100%"


def percent(done: int, total: int) -> float:
    """Return how much of `total` is done, in percent; the last hundredth is said by finishing."""
    return min(100.0 * done / total, ALMOST) if total else ALMOST


def lag_text(epochs: int) -> str:
    """Return a difference of epochs as seconds."""
    return f"lag {max(0, epochs >> SHIFT) / 1000:.1f} s"


@dataclass
class CreateMviewProgressTracker:
    """`total` is about how many rows the snapshot has, None where nobody counted them."""

    view: str
    total: int | None
    finishing: bool = False
    """Little is left, and the main graph is asked to take the view in."""
    _said: CreateMviewProgressReporter = field(init=False)

    def __post_init__(self) -> None:
        self._said = CreateMviewProgressReporter(self.view)

    @property
    def finished(self) -> bool:
        return isinstance(self._said.state, DoneLogStore)

    def report(self, state: BackfillState) -> None:
        """Take what the view says; raises ProgressWentBack where it may not follow."""
        match state:
            case ConsumingSnapshot(epoch, rows):
                self._said.update(epoch, rows)
            case DoneSnapshot(rows):
                self._said.finish(rows)
            case ConsumingLogStore(lag):
                self._said.update_create_mview_log_store_progress(lag)
            case DoneLogStore():
                self._said.finish_consuming_log_store()

    def progress(self) -> str | None:
        match self._said.state:
            case None:
                return None
            case ConsumingSnapshot(_, rows):
                if self.total is None:
                    return None
                shown = percent(rows, self.total)
                return f"Snapshot [{shown:.2f}% ({rows}/{max(rows, self.total)})]"
            case DoneSnapshot():
                return "Snapshot finished"
            case ConsumingLogStore(lag):
                word = "Finishing" if self.finishing else "LogStore"
                return f"{word} [{lag_text(lag)}]"
            case DoneLogStore():
                return DONE


@dataclass
class CdcTableTracker:
    """Backfilling ─every split is passed─▶ PreCompleted ─the commit that says so─▶ Completed"""

    table: str
    generation: int
    splits: int
    completed: bool = False
    _said: CdcProgressReporter = field(init=False)

    def __post_init__(self) -> None:
        first = CdcProgress(self.generation, self.splits, 0, 0, 0)
        self._said = CdcProgressReporter(self.table, first)

    @property
    def pre_completed(self) -> bool:
        """Every split is read and passed; the next checkpoint may say that the table is live."""
        return 0 < self._said.last.splits == self._said.last.completed

    def report(self, progress: CdcProgress) -> bool:
        """Take a report; return False for one of another generation, or after completion."""
        return not self.pre_completed and self._said.report(progress)

    def complete(self) -> None:
        """The checkpoint is committed."""
        self.completed = True

    def progress(self) -> str | None:
        if self.completed:
            return DONE
        last = self._said.last
        if not last.splits:
            return None
        read = f"{last.backfilled}/{last.splits} splits"
        passed = f", {last.completed} passed" if last.backfilled == last.splits else ""
        return f"{percent(last.backfilled, last.splits):.2f}% ({read}{passed})"
