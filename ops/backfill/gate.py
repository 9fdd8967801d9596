"""Where the readers of a backfill wait before each page: for the end of a pause, for their turn.

    the executor's thread    look(): what is wanted now? applies what changed, between two pages
    reader threads           admit(rows): wait; returns how many rows the page may have
                             rest(seconds): wait before a page is tried again
                             parallelism: how many of them there may be; too many end by themselves

A page in flight is never interrupted: it is short. A reader that waits is let go by `close`.

Pure.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ops.backfill.rate_limit import TokenBucket
from ops.common.barrier import Mutation, Pause, Resume, Throttle
from ops.common.controls import Controls, apply, mutations
from ops.common.ports import Clock, Statements

WAIT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Admitted:
    """A page of at most `rows` may be read now; `bucket` gets back what it did not have."""

    rows: int
    bucket: TokenBucket | None


class BackfillGate:
    def __init__(self, table: str, look: Callable[[], Controls], clock: Clock) -> None:
        self._table, self._look, self._clock = table, look, clock
        self._lock = threading.Lock()
        self._controls = Controls()
        self._bucket: TokenBucket | None = None
        self._closed = False

    def look(self) -> list[Mutation]:
        """Take what is wanted now; return what changed."""
        wanted = self._look()
        with self._lock:
            changed = mutations(self._controls, wanted, table=self._table)
            for mutation in changed:
                self._apply(mutation)
            return changed

    def admit(self, wanted: int) -> Admitted | None:
        """Wait until a page may be read; None when the gate was closed meanwhile."""
        bucket: TokenBucket | None = None
        rows, moment = wanted, 0.0
        while True:
            with self._lock:
                now = self._clock.monotonic()
                if self._closed:
                    return None
                if not self._controls.paused:
                    if self._bucket is None:
                        return Admitted(wanted, None)
                    if bucket is not self._bucket:
                        # The first turn, or the limit was changed while we waited for ours.
                        bucket = self._bucket
                        rows = bucket.page_rows(wanted)
                        moment = bucket.reserve(rows, now)
                    if now >= moment:
                        return Admitted(rows, bucket)
            left = moment - now
            self._clock.sleep(left if 0 < left < WAIT_SECONDS else WAIT_SECONDS)

    @property
    def parallelism(self) -> int | None:
        """How many readers a user wants; None is what the table's definition says."""
        with self._lock:
            return self._controls.parallelism

    def rest(self, seconds: float) -> bool:
        """Wait for so long; False when the gate was closed meanwhile."""
        until = self._clock.monotonic() + seconds
        while (left := until - self._clock.monotonic()) > 0:
            with self._lock:
                if self._closed:
                    return False
            self._clock.sleep(min(left, WAIT_SECONDS))
        return True

    def read(self, admitted: Admitted, rows: int) -> None:
        """Give back what a page was admitted for and did not read."""
        if admitted.bucket is not None and rows < admitted.rows:
            with self._lock:
                admitted.bucket.refund(admitted.rows - rows)

    def close(self) -> None:
        with self._lock:
            self._closed = True

    def _apply(self, mutation: Mutation) -> None:
        before = self._controls
        self._controls = apply(before, mutation)
        match mutation:
            case Throttle(_, rows_per_s, _):
                if rows_per_s == before.rows_per_s:
                    return
                self._bucket = TokenBucket(rows_per_s) if rows_per_s else None
            case Resume():
                # What was reserved before the pause is long past.
                rate = self._controls.rows_per_s
                self._bucket = TokenBucket(rate) if rate else None
            case Pause():
                pass
            case _:
                raise AssertionError(mutation)


def wanted_controls(store: Statements, relation: int) -> Controls:
    """Return what the store says is wanted of a relation's backfill."""
    row = store.query("select_controls", relation=relation)[0]
    return Controls(row["paused"], row["rows_per_second"], row["parallelism"])
