"""Compare a live table with its source, range by range, and repair what differs.

    wave of ranges   pin e0, await the transactions that run at the source
                     checksums of both sides; where they are equal nothing more is asked
    others           read page by page into files; flush: e1; compare row by row (`settled`)
    repair           stage the difference, with a pin of its own at e0; the main graph takes it in
                     with its next checkpoint, and says so

It holds a lease of its own, so that one process at a time compares a table; the main graph and its
views go on. What an owner staged and did not see taken in is void when the next one begins.

Spark.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from ops.backfill.cdc.ports import Source
from ops.backfill.cdc.renew import close_gap
from ops.backfill.cdc.split_reader import Pages
from ops.backfill.cdc.verify.compare import LakeSide
from ops.backfill.cdc.verify.ranges import (
    ALL,
    KeyRange,
    TextKey,
    as_text,
    cut,
    place_of,
    waves,
)
from ops.backfill.cdc.verify.report import LISTED, VerifyReport, wrong_keys
from ops.backfill.cdc.verify.taking import LATEST
from ops.barrier_worker.commit import fail_attempt, open_attempt
from ops.barrier_worker.lease import LeaseKeeper, require_term
from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.errors import RepairLost, TableStopped
from ops.common.ports import Failpoint, Store
from ops.common.table.pins import pinned
from ops.common.table.relation import Relation, changed_files, listing
from ops.common.table.staging import Written, keep_written
from ops.common.table.state_table import StateTable

RANGE_ROWS = 20_000
"""So few that reading a range costs no more than narrowing it down would."""
WAVE_RANGES = 256
WAIT_SECONDS = 3600.0
FILE_ROWS = 250_000
POLL_SECONDS = 0.1


class Checksum(Protocol):
    @property
    def rows(self) -> int: ...
    @property
    def total(self) -> int: ...


class Checksums(Protocol):
    """Asks the source for the checksums of key ranges, of no more rows each than a limit."""

    def take(
        self, ranges: Sequence[tuple[TextKey | None, TextKey | None]], *, limit: int
    ) -> Sequence[Checksum]: ...


@dataclass(frozen=True)
class VerifyExecutor:
    relation: Relation
    main_graph: str
    store: Store
    source: Source
    checksums: Checksums
    pages: Pages
    table: StateTable
    keeper: LeaseKeeper
    flush: Callable[[], Epoch]
    """Waits for a checkpoint that holds all the source has committed by now."""
    check: Callable[[], None]
    """Called while waiting; may raise what makes waiting useless."""
    failpoint: Failpoint
    tell: Callable[[str], None]
    page_rows: int
    parallelism: int
    is_ordered_alike: bool
    """Whether a range of keys is the same rows at the source and in Spark."""

    def verify(self, within: KeyRange = ALL) -> VerifyReport:
        """Compare the keys of a range; nothing is changed."""
        self._begin()
        return self._compare(within, repair=False)

    def repair(self, within: KeyRange = ALL) -> VerifyReport:
        """Compare the keys of a range, and write what differs as changes of the table."""
        self._begin()
        # From the flush on, every event leaves it to be looked up what was there before.
        self._look_up_old(True)
        self.flush()
        report = self._compare(within, repair=True)
        if within == ALL:
            close_gap(
                self.store,
                self.relation,
                main_graph=self.main_graph,
                term=self.keeper.term,
                failpoint=self.failpoint,
            )
        elif self.relation.state == "Live":
            self._look_up_old(False)
        return report

    def _begin(self) -> None:
        self.failpoint("repair.before_begin")
        with self.store.transaction() as tx:
            require_term(tx, self.keeper.term.graph, self.keeper.term.term)
            tx.query("lock_relation", relation=self.relation.id)
            tx.execute("delete_repairs", relation=self.relation.id)
            tx.execute("delete_pin", relation=self.relation.id, owner=self.keeper.term.graph)
        self.failpoint("repair.after_begin")

    def _look_up_old(self, looks_up: bool) -> None:
        self.failpoint("repair.before_mark")
        self.store.execute("set_looks_up_old", relation=self.relation.id, looks_up=looks_up)
        self.failpoint("repair.after_mark")

    def _compare(self, within: KeyRange, *, repair: bool) -> VerifyReport:
        report = VerifyReport(self.relation.name)
        dealt = waves(self._ranges(within), size=WAVE_RANGES)
        for number, wave in enumerate(dealt, start=1):
            self._wave(wave, report, repair=repair)
            if len(dealt) > 1:
                self.tell(f"{self.relation.name}: {number} of {len(dealt)} parts compared")
        return report

    def _ranges(self, within: KeyRange) -> Sequence[KeyRange]:
        if not self.is_ordered_alike:
            # Only the source knows where such a key lies: read it all and compare by key.
            return [within]
        with self._settling() as lake:
            rows = lake.count(within)
            count = max(-(-rows // RANGE_ROWS), self.parallelism)
            return cut(within, lake.sample(within, rows), count=count)

    def _wave(self, wave: Sequence[KeyRange], report: VerifyReport, *, repair: bool) -> None:
        with self._settling() as lake:
            # Read by now: what was committed before e0 is in the lake, or visible from here on.
            self.source.await_running_transactions(
                lambda who: self.tell(f"waiting for transactions that began earlier: {who}"),
                WAIT_SECONDS,
            )
            limit = 2 * RANGE_ROWS
            with ThreadPoolExecutor(1) as beside:
                there = beside.submit(
                    self.checksums.take,
                    [(as_text(r.lower), as_text(r.upper)) for r in wave],
                    limit=limit,
                )
                ours = lake.checksums(wave)
                theirs = there.result()
            report.ranges += len(wave)
            report.rows += sum(c.rows for c in theirs)
            differ = [
                place
                for place, (mine, its) in enumerate(zip(ours, theirs, strict=True))
                # A range that reached the limit has more rows than were asked for.
                if mine != (its.rows, its.total) or its.rows >= limit
            ]
            self.keeper.check()
            if differ:
                report.read_ranges += len(differ)
                self._rows(lake, wave, differ, report, repair=repair)

    def _rows(
        self,
        lake: LakeSide,
        wave: Sequence[KeyRange],
        places: Sequence[int],
        report: VerifyReport,
        *,
        repair: bool,
    ) -> None:
        """Compare some ranges row by row, as of the pinned epoch and the flush to come."""
        attempt = open_attempt(
            self.store,
            self.keeper.term.graph,
            self.keeper.term.term,
            f"{self.relation.path}/_attempts",
            failpoint=self.failpoint,
        )
        pages = self._read_pages(attempt, [wave[place] for place in places])
        report.epoch = self.flush()
        since = changed_files(
            self.relation, listing(self.store, self.relation), lake.contents.as_of, LATEST
        )
        wrong = lake.differences(lake.read_pages(pages), lake.among(wave, places), since)
        written = self._write(wrong, attempt)
        self._report(wave, written, report)
        if repair and written:
            report.repaired += self._taken(written, attempt, lake.contents.as_of)
        else:
            fail_attempt(self.store, attempt, failpoint=self.failpoint)

    def _read_pages(self, attempt: Attempt, ranges: Sequence[KeyRange]) -> list[str]:
        """Read ranges of the source into files, a few at a time; return where the rows are."""

        def read(numbered: tuple[int, KeyRange]) -> list[str]:
            number, wanted = numbered
            paths: list[str] = []
            lower, upper = as_text(wanted.lower), as_text(wanted.upper)
            cursor: TextKey | None = None
            while True:
                self.keeper.check()
                path = f"{attempt.directory}/page-{number}-{len(paths)}.parquet"
                self.failpoint("repair.before_page_write")
                page = self.pages.read(
                    at_least=lower if cursor is None else None,
                    above=cursor,
                    below=upper,
                    limit=self.page_rows,
                    path=path,
                )
                self.failpoint("repair.after_page_write")
                if page.rows:
                    paths.append(path)
                if page.rows < self.page_rows or page.last_key is None:
                    return paths
                cursor = page.last_key

        with ThreadPoolExecutor(self.parallelism) as readers:
            return [path for paths in readers.map(read, enumerate(ranges)) for path in paths]

    def _write(self, wrong: DataFrame, attempt: Attempt) -> list[Written]:
        folder = f"{attempt.directory}/difference"
        self.failpoint("repair.before_write")
        writer = wrong.coalesce(1).write.mode("overwrite").option("maxRecordsPerFile", FILE_ROWS)
        writer.parquet(self.table.lake.uri(folder))
        self.failpoint("repair.after_write")
        return keep_written(self.table.lake, folder, failpoint=self.failpoint)

    def _report(
        self, wave: Sequence[KeyRange], written: Sequence[Written], report: VerifyReport
    ) -> None:
        for file in written:
            keys = self.table.lake.read(file.path, ["key"]).column("key").to_pylist()
            for key in keys:
                place = place_of(tuple(key.values()), wave)
                report.wrong_ranges[wave[place]] = report.wrong_ranges.get(wave[place], 0) + 1
            report.wrong += file.rows
            if len(report.keys) < LISTED:
                rows = self.table.lake.read(file.path, ["key", "new", "old"])
                listed = rows.slice(0, LISTED - len(report.keys)).to_pylist()
                report.keys += wrong_keys(listed)

    def _taken(self, written: Sequence[Written], attempt: Attempt, since: Epoch) -> int:
        """Hand a difference to the main graph; return how many rows it has taken in."""
        graph, term = self.keeper.term.graph, self.keeper.term.term
        before = self._pending()
        self.failpoint("repair.before_stage")
        with self.store.transaction() as tx:
            require_term(tx, graph, term)
            tx.query("lock_relation", relation=self.relation.id)
            tx.execute("upsert_pin", relation=self.relation.id, owner=graph, epoch=since)
            for file in written:
                tx.execute(
                    "insert_repair",
                    relation=self.relation.id,
                    graph=graph,
                    term=term,
                    attempt=attempt.id,
                    path=file.path,
                    since=since,
                    rows=file.rows,
                )
        self.failpoint("repair.after_stage")
        while True:
            self.keeper.check()
            self.check()
            mine = {k: v for k, v in self._pending().items() if k not in before}
            if len(mine) < len(written):
                raise RepairLost(self.relation.name)
            if None not in mine.values():
                return sum(rows for rows in mine.values() if rows is not None)
            self._require_not_stopped()
            time.sleep(POLL_SECONDS)

    @contextmanager
    def _settling(self) -> Iterator[LakeSide]:
        """Hold the table at the newest epoch, which becomes e0."""
        self._require_not_stopped()
        with pinned(
            self.store, [self.relation], main_graph=self.main_graph, failpoint=self.failpoint
        ) as held:
            yield LakeSide(self.table, held.contents[self.relation.id])

    def _require_not_stopped(self) -> None:
        found = self.store.query("select_relation_state", relation=self.relation.id)[0]
        if found["state"] == "Stopped":
            raise TableStopped(self.relation.name, found["why"])

    def _pending(self) -> dict[int, int | None]:
        """Return this owner's repairs, with the rows taken in where they are."""
        rows = self.store.query(
            "select_repairs_taken",
            relation=self.relation.id,
            graph=self.keeper.term.graph,
            term=self.keeper.term.term,
        )
        return {row["id"]: row["taken_rows"] for row in rows}
