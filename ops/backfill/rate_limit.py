"""How fast rows may be read: a bucket that gives out moments, not rows.

    reserve(rows, now)  ->  the moment from which that many rows may be read
    refund(rows)            those that turned out not to be there

Each reservation takes `rows / rate` seconds of the future, so that any number of readers together
keep the rate. What was not used is lost, but for a quarter of a second: there is no burst after a
pause, and a reader that wakes up late does not slow the rate down.

Pure.
"""

from dataclasses import dataclass

SLACK_SECONDS = 0.25
PAGE_SECONDS = 0.5
"""A page under a limit holds about this many seconds of rows, so that a change is soon felt."""


@dataclass
class TokenBucket:
    """`rate` is in rows per second."""

    rate: int
    _free_at: float = float("-inf")

    def reserve(self, rows: int, now: float) -> float:
        moment = max(self._free_at, now - SLACK_SECONDS)
        self._free_at = moment + rows / self.rate
        return moment

    def refund(self, rows: int) -> None:
        self._free_at -= rows / self.rate

    def page_rows(self, wanted: int) -> int:
        """Return how many rows to read at once, at most `wanted`."""
        return max(1, min(wanted, round(self.rate * PAGE_SECONDS)))
