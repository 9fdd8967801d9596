"""What a view under construction says of itself, and the order in which it may say it.

    None ─▶ ConsumingSnapshot(rows) ─▶ DoneSnapshot(rows) ─▶ ConsumingLogStore(lag) ─▶ DoneLogStore
      └───────────────── (resumed after its snapshot) ─────────▶

Rows are cumulative and never fall. A second finish is nothing. What was said is told to `report`,
where there is one, in the order of its saying.

Pure.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ops.common.epoch import Epoch
from ops.common.errors import ProgressWentBack


@dataclass(frozen=True, slots=True)
class ConsumingSnapshot:
    epoch: Epoch
    rows: int


@dataclass(frozen=True, slots=True)
class DoneSnapshot:
    rows: int


@dataclass(frozen=True, slots=True)
class ConsumingLogStore:
    pending_epoch_lag: int


@dataclass(frozen=True, slots=True)
class DoneLogStore:
    pass


BackfillState = ConsumingSnapshot | DoneSnapshot | ConsumingLogStore | DoneLogStore


@dataclass
class CreateMviewProgressReporter:
    view: str
    state: BackfillState | None = field(default=None)
    report: Callable[[BackfillState], None] = field(default=lambda _: None)

    def update(self, epoch: Epoch, rows: int) -> None:
        match self.state:
            case None:
                pass
            case ConsumingSnapshot(was_epoch, was_rows):
                if epoch < was_epoch or rows < was_rows:
                    raise ProgressWentBack(
                        f"view {self.view} reported {rows} rows at {epoch} after "
                        f"{was_rows} at {was_epoch}"
                    )
            case _:
                raise ProgressWentBack(f"view {self.view} reads its snapshot again: {self.state}")
        self._say(ConsumingSnapshot(epoch, rows))

    def finish(self, rows: int) -> None:
        match self.state:
            case None:
                pass
            case ConsumingSnapshot(_, was_rows):
                if rows < was_rows:
                    raise ProgressWentBack(
                        f"view {self.view} finished with {rows} rows after {was_rows}"
                    )
            case _:
                return
        self._say(DoneSnapshot(rows))

    def update_create_mview_log_store_progress(self, lag: int) -> None:
        match self.state:
            case None | DoneSnapshot() | ConsumingLogStore():
                self._say(ConsumingLogStore(lag))
            case _:
                raise ProgressWentBack(f"view {self.view} cannot follow the log in {self.state}")

    def finish_consuming_log_store(self) -> None:
        match self.state:
            case None | DoneSnapshot() | ConsumingLogStore():
                self._say(DoneLogStore())
            case DoneLogStore():
                return
            case _:
                raise ProgressWentBack(f"view {self.view} is done before its snapshot is read")

    def _say(self, state: BackfillState) -> None:
        self.state = state
        self.report(state)
