"""Read one split, page after page, as fast as the gate lets it.

A page that the source does not answer in time, or refuses for now, is tried again after a while:
the page, not the run, and a smaller one. Each try has an attempt of its own, since a task that was
given up may still write. What does not pass for five minutes ends the run.

Pure.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ops.backfill.backoff import GIVE_UP_SECONDS, delay
from ops.backfill.cdc.split import Key
from ops.backfill.cdc.state_v2 import Page, SplitState
from ops.backfill.gate import Admitted, BackfillGate
from ops.backfill.page_size import first_rows, next_rows, rows_after_failure
from ops.barrier_worker.commit import fail_attempt, open_attempt
from ops.common.barrier import Attempt
from ops.common.errors import is_transient
from ops.common.ports import Clock, Failpoint, Store
from ops.common.table.key_range import between
from ops.common.table.relation import Relation, StagedFile


class PageRead(Protocol):
    """What a page task says: how much it wrote, and the last key it saw (None: no row)."""

    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def memory(self) -> int: ...
    @property
    def last_key(self) -> Key | None: ...
    @property
    def bounds(self) -> tuple[Any, Any] | None: ...
    @property
    def seconds(self) -> float: ...


class Pages(Protocol):
    """Reads one page of a source's table into one Parquet file, somewhere else than here."""

    def read(
        self,
        *,
        at_least: Key | None,
        above: Key | None,
        below: Key | None,
        limit: int,
        path: str,
    ) -> PageRead: ...


@dataclass
class SplitReader:
    """All readers of a table share one; what a page took tells the next its size."""

    relation: Relation
    term: int
    store: Store
    pages: Pages
    clock: Clock
    failpoint: Failpoint
    gate: BackfillGate
    most_rows: int
    """A page has no more rows than this."""

    def __post_init__(self) -> None:
        self._rows = first_rows(self.most_rows)

    def read(self, split: SplitState) -> Iterator[Page]:
        """Yield the split's pages; ends early when the gate is closed."""
        cursor, finished = split.cursor, False
        while not finished:
            found = self._page(split, cursor)
            if found is None:
                return
            asked, attempt, page, path = found
            finished = page.rows < asked
            cursor = page.last_key or cursor
            file = None
            if page.rows:
                first = self.relation.schema.key_columns[0].type
                ranges = None if page.bounds is None else between(*page.bounds, first)
                file = StagedFile(
                    self.relation.id,
                    attempt.id,
                    "snapshot",
                    path,
                    page.rows,
                    page.bytes,
                    key_ranges=ranges,
                )
            yield Page(
                split.split_id,
                file,
                attempt.id,
                page.rows,
                page.bytes,
                page.seconds,
                cursor,
                finished,
            )

    def _page(
        self, split: SplitState, cursor: Key | None
    ) -> tuple[int, Attempt, PageRead, str] | None:
        """Read the page after `cursor`, however often it takes; None when the gate was closed."""
        failures, since = 0, self.clock.monotonic()
        while (admitted := self.gate.admit(self._rows)) is not None:
            attempt = open_attempt(
                self.store,
                self.relation.graph,
                self.term,
                f"{self.relation.path}/_attempts",
                failpoint=self.failpoint,
            )
            path = f"{attempt.directory}/page.parquet"
            try:
                page = self._ask(split, cursor, admitted, path)
            except Exception as error:
                self.gate.read(admitted, 0)
                given_up = self.clock.monotonic() - since > GIVE_UP_SECONDS
                if not is_transient(error) or given_up:
                    raise
                fail_attempt(self.store, attempt, failpoint=self.failpoint)
                failures += 1
                self._rows = rows_after_failure(self._rows)
                if not self.gate.rest(delay(failures, random.random())):
                    return None
                continue
            self.gate.read(admitted, page.rows)
            self._learn(admitted, page)
            return admitted.rows, attempt, page, path
        return None

    def _ask(
        self, split: SplitState, cursor: Key | None, admitted: Admitted, path: str
    ) -> PageRead:
        self.failpoint("backfill.before_page_write")
        page = self.pages.read(
            at_least=split.left if cursor is None else None,
            above=cursor,
            below=split.right,
            limit=admitted.rows,
            path=path,
        )
        self.failpoint("backfill.after_page_write")
        return page

    def _learn(self, admitted: Admitted, page: PageRead) -> None:
        if admitted.rows < self._rows and page.rows == admitted.rows:
            # A limit made it small: it says little about what a large one takes.
            return
        self._rows = next_rows(
            admitted.rows,
            rows=page.rows,
            seconds=page.seconds,
            memory=page.memory,
            most=self.most_rows,
        )
