"""What a table under backfill says of itself: splits read, splits passed by the stream, rows.

A report of another generation is ignored: its splits were dealt out before the last restart.

Pure.
"""

from dataclasses import dataclass

from ops.common.errors import ProgressWentBack


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
        if progress.generation != self.last.generation:
            return False
        if (
            progress.backfilled < self.last.backfilled
            or progress.completed < self.last.completed
            or progress.rows < self.last.rows
        ):
            raise ProgressWentBack(f"table {self.table} reported {progress} after {self.last}")
        self.last = progress
        return True
