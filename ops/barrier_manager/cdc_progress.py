"""What a table under backfill says of itself: splits read, splits passed by the stream, rows.

Generations count from 1; each time the splits are dealt out anew the next one begins, with nothing
read. A report of another generation than the reporter's is ignored: it is about other splits.

Pure.
"""

from dataclasses import dataclass

from ops.common.errors import ProgressWentBack, WrongGeneration


@dataclass(frozen=True, slots=True)
class CdcProgress:
    """`backfilled` = read and committed; `completed` = the stream has passed its watermark too."""

    generation: int
    splits: int
    backfilled: int
    completed: int
    rows: int


@dataclass
class CdcProgressReporter:
    table: str
    last: CdcProgress

    def report(self, progress: CdcProgress) -> bool:
        """Take a report; return whether it was of this generation."""
        if progress.generation < 1:
            raise WrongGeneration(self.table, progress.generation)
        if progress.generation != self.last.generation:
            return False
        if (
            progress.backfilled < self.last.backfilled
            or progress.completed < self.last.completed
            or progress.rows < self.last.rows
        ):
            raise ProgressWentBack(f"table {self.table} reported {progress} after {self.last}")
        if not progress.completed <= progress.backfilled <= progress.splits:
            raise ProgressWentBack(
                f"table {self.table} reported {progress.completed} splits passed and "
                f"{progress.backfilled} read of {progress.splits}"
            )
        self.last = progress
        return True

    def restart(self, generation: int, splits: int) -> None:
        """Begin a later generation, with nothing read."""
        if generation <= self.last.generation:
            raise WrongGeneration(self.table, generation)
        self.last = CdcProgress(generation, splits, 0, 0, 0)
