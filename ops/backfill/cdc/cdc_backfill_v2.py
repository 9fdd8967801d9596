"""Read a table's snapshot in parallel splits, page by page, while its stream is being kept.

    worker threads   one per slot of parallelism: take a split, read page after page of it
    this thread      every tick: look for a pause or a limit, which the gate applies before the
                     next page; send the watermark message; commit the pages read so far

A page is short, needs no lock, and may be read any number of times: the log supersedes it. A
split is finished when its last page is committed, completed when the main graph has committed
past the message sent after it. Going live is the main graph's to say.

Pure.
"""

import json
import queue
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ops.backfill.cdc.ports import Source
from ops.backfill.cdc.split import even_splits, vnode_of_split
from ops.backfill.cdc.transaction_buffer import PREFIX
from ops.backfill.gate import BackfillGate, wanted_controls
from ops.barrier_manager.cdc_progress import CdcProgress, CdcProgressReporter
from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import LeaseKeeper, require_term
from ops.common.epoch import Epoch, next_epoch
from ops.common.errors import RelationEnded, TableStopped, TermOver
from ops.common.ports import Clock, Failpoint, Statements, Store
from ops.common.table.relation import Relation, Role, StagedFile
from ops.planner.plan import TablePlan

MAX_SPLITS = 10_000
TICK_SECONDS = 1.0
LEAST = -(2**63)


class PageRead(Protocol):
    """What a page task says: how much it wrote, and the last key it saw (None: no row)."""

    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def last_key(self) -> int | None: ...
    @property
    def seconds(self) -> float: ...


class Pages(Protocol):
    """Reads one page of a source's table into one Parquet file, somewhere else than here."""

    def read(self, *, lower: int | None, upper: int | None, limit: int, path: str) -> PageRead: ...


@dataclass(frozen=True, slots=True)
class SplitState:
    split_id: int
    left: int | None
    right: int | None
    next_key: int | None
    rows: int
    bytes: int
    seconds: float
    finished: bool
    watermark: Epoch | None

    @staticmethod
    def from_row(row: dict[str, Any]) -> "SplitState":
        return SplitState(
            row["split_id"],
            row["left_bound"],
            row["right_bound"],
            row["next_key"],
            row["rows"],
            row["bytes"],
            row["seconds"],
            row["finished"],
            row["watermark"],
        )


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read and is not committed yet."""

    split_id: int
    file: StagedFile | None
    attempt: int
    rows: int
    bytes: int
    seconds: float
    next_key: int | None
    finished: bool


@dataclass(frozen=True, slots=True)
class VnodeDone:
    vnode: int
    rows: int
    bytes: int
    seconds: float


@dataclass
class ParallelizedCdcBackfillExecutor:
    plan: TablePlan
    relation: Relation
    store: Store
    source: Source
    pages: Pages
    clock: Clock
    failpoint: Failpoint
    keeper: LeaseKeeper
    leaving: Callable[[], bool] = lambda: False
    """Asked about once a second: nobody wants the rest any more."""

    def run(self, vnodes: Collection[int]) -> Iterator[VnodeDone]:
        """Read the splits of `vnodes` and yield each vnode once its splits are committed."""
        self._committed = self.keeper.term.committed
        with self.store.transaction() as tx:
            self._require_not_stopped(tx)
        splits = {s.split_id: s for s in self._splits() or self._plan_splits()}
        reporter = CdcProgressReporter(self.relation.name, self._progress(splits))
        waiting = set(vnodes)
        yield from self._finished(splits, waiting)
        todo = [s for s in splits.values() if self._vnode(s.split_id) in waiting]
        # Vnode by vnode, so that partitions are finished along the way and not all at the end.
        todo = sorted(
            (s for s in todo if not s.finished), key=lambda s: (self._vnode(s.split_id), s.split_id)
        )
        results: queue.SimpleQueue[Page | BaseException] = queue.SimpleQueue()
        self._gate = BackfillGate(
            self.relation.name,
            lambda: wanted_controls(self.store, self.relation.id),
            self.clock,
        )
        self._gate.look()
        threads = self._start(todo, results)
        try:
            unfinished = {s.split_id for s in todo}
            while unfinished and not self.leaving():
                self.keeper.check()
                self._gate.look()
                pages = self._gather(results)
                if not pages:
                    continue
                self._commit(pages, splits)
                unfinished -= {p.split_id for p in pages if p.finished}
                reporter.report(self._progress(splits))
                yield from self._finished(splits, waiting)
        finally:
            self._gate.close()
            for thread in threads:
                thread.join()

    def _splits(self) -> list[SplitState]:
        rows = self.store.query("select_splits", relation=self.relation.id)
        return [SplitState.from_row(row) for row in rows]

    def _plan_splits(self) -> list[SplitState]:
        """Cut the key's range once; the cut is kept, so that a restart reads the same splits."""
        bounds = self.source.key_bounds(
            self.plan.external_schema, self.plan.external_table, self.relation.schema.key[0]
        )
        splits = even_splits(
            bounds.low,
            bounds.high,
            estimated_rows=bounds.estimated_rows,
            rows_per_split=self.plan.rows_per_split,
            max_splits=MAX_SPLITS,
        )
        self.failpoint("backfill.before_plan_splits")
        with self.store.transaction() as tx:
            require_term(tx, self.relation.graph, self.keeper.term.term)
            self._require_not_stopped(tx)
            for split in splits:
                tx.execute(
                    "insert_split",
                    relation=self.relation.id,
                    split_id=split.split_id,
                    generation=self.keeper.term.generation,
                    left_bound=split.left,
                    right_bound=split.right,
                )
            tx.execute(
                "set_relation_state", relation=self.relation.id, state="Backfilling", why=None
            )
        self.failpoint("backfill.after_plan_splits")
        return self._splits()

    def _start(
        self,
        todo: list[SplitState],
        results: "queue.SimpleQueue[Page | BaseException]",
    ) -> list[threading.Thread]:
        splits: queue.SimpleQueue[SplitState] = queue.SimpleQueue()
        for split in todo:
            splits.put(split)

        def work() -> None:
            try:
                while True:
                    try:
                        split = splits.get_nowait()
                    except queue.Empty:
                        return
                    for page in self._read_split(split):
                        results.put(page)
            except BaseException as error:
                results.put(error)

        count = min(self.plan.parallelism, len(todo))
        threads = [
            threading.Thread(target=work, name=f"{self.relation.graph} reader {i}", daemon=True)
            for i in range(count)
        ]
        for thread in threads:
            thread.start()
        return threads

    def _read_split(self, split: SplitState) -> Iterator[Page]:
        lower, finished = split.next_key, False
        while not finished:
            admitted = self._gate.admit(self.plan.page_rows)
            if admitted is None:
                return
            attempt = open_attempt(
                self.store,
                self.relation.graph,
                self.keeper.term.term,
                f"{self.relation.path}/_attempts",
                failpoint=self.failpoint,
            )
            path = f"{attempt.directory}/page.parquet"
            self.failpoint("backfill.before_page_write")
            page = self.pages.read(lower=lower, upper=split.right, limit=admitted.rows, path=path)
            self.failpoint("backfill.after_page_write")
            self._gate.read(admitted, page.rows)
            finished = page.rows < admitted.rows
            first = lower
            if page.last_key is not None:
                lower = page.last_key + 1
            file = StagedFile(
                self.relation.id,
                attempt.id,
                "snapshot",
                path,
                page.rows,
                page.bytes,
                key_ranges=((LEAST if first is None else first, page.last_key),),
            )
            yield Page(
                split.split_id,
                file if page.rows else None,
                attempt.id,
                page.rows,
                page.bytes,
                page.seconds,
                lower,
                finished,
            )

    def _gather(self, results: "queue.SimpleQueue[Page | BaseException]") -> list[Page]:
        """Return the pages of one tick; an empty list when none came in its time."""
        pages: list[Page] = []
        deadline = self.clock.monotonic() + TICK_SECONDS
        while (left := deadline - self.clock.monotonic()) > 0:
            try:
                result = results.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(result, BaseException):
                raise result
            pages.append(result)
            if result.finished:
                break
        return pages

    def _commit(self, pages: list[Page], splits: dict[int, SplitState]) -> None:
        epoch = next_epoch(self._committed, self.clock.now_ms())
        said = {
            "graph": self.relation.graph,
            "generation": self.keeper.term.generation,
            "term": self.keeper.term.term,
            "epoch": epoch,
        }
        self.failpoint("backfill.before_watermark")
        self.source.emit_message(PREFIX, json.dumps(said))
        self.failpoint("backfill.after_watermark")
        after = {p.split_id: _advanced(splits, p, epoch) for p in pages}

        def also(tx: Statements) -> None:
            self._require_not_stopped(tx)
            for page in pages:
                self._advance_split(tx, page, epoch)
            if all(after.get(s, split).finished for s, split in splits.items()):
                tx.execute(
                    "set_relation_state", relation=self.relation.id, state="CatchingUp", why=None
                )

        commit_epoch(
            self.store,
            EpochCommit(
                graph=self.relation.graph,
                term=self.keeper.term.term,
                prev=self._committed,
                epoch=epoch,
                attempts=[p.attempt for p in pages],
                files=[p.file for p in pages if p.file is not None],
            ),
            failpoint=self.failpoint,
            name="backfill",
            also=also,
        )
        self._committed = epoch
        for page in pages:
            splits[page.split_id] = _advanced(splits, page, epoch)

    def _advance_split(self, tx: Statements, page: Page, epoch: Epoch) -> None:
        touched = tx.execute(
            "advance_split",
            relation=self.relation.id,
            split_id=page.split_id,
            generation=self.keeper.term.generation,
            next_key=page.next_key,
            rows=page.rows,
            bytes=page.bytes,
            seconds=page.seconds,
            finished=page.finished,
            term=self.keeper.term.term,
            watermark=epoch,
        )
        if touched != 1:
            # The generation was raised meanwhile: this page must not bring rows back.
            raise TermOver(self.relation.graph, self.keeper.term.term)

    def _require_not_stopped(self, tx: Statements) -> None:
        """The stream drops the events of a stopped table: it must never come to be live."""
        found = tx.query("lock_relation", relation=self.relation.id)[0]
        if found["role"] == Role.OLD:
            raise RelationEnded(self.relation.graph)
        if found["state"] == "Stopped":
            raise TableStopped(self.relation.name, found["why"])

    def _finished(self, splits: dict[int, SplitState], waiting: set[int]) -> Iterator[VnodeDone]:
        for vnode in sorted(waiting):
            mine = [s for s in splits.values() if self._vnode(s.split_id) == vnode]
            if all(s.finished for s in mine):
                waiting.remove(vnode)
                yield VnodeDone(
                    vnode,
                    sum(s.rows for s in mine),
                    sum(s.bytes for s in mine),
                    sum((s.seconds for s in mine), 0.0),
                )

    def _progress(self, splits: dict[int, SplitState]) -> CdcProgress:
        finished = sum(s.finished for s in splits.values())
        rows = sum(s.rows for s in splits.values())
        return CdcProgress(self.keeper.term.generation, len(splits), finished, 0, rows)

    def _vnode(self, split_id: int) -> int:
        return vnode_of_split(split_id, self.relation.vnode_count)


def _advanced(splits: dict[int, SplitState], page: Page, epoch: Epoch) -> SplitState:
    was = splits[page.split_id]
    return SplitState(
        was.split_id,
        was.left,
        was.right,
        page.next_key,
        was.rows + page.rows,
        was.bytes + page.bytes,
        was.seconds + page.seconds,
        page.finished,
        epoch,
    )
