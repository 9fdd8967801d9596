"""What both backfills of a table share: pages are read by a pool, and committed as they come.

    reader threads   read pages of splits, wait at the gate
    this thread      about twice a second: looks for a pause, a limit, another number of readers;
                     sends the watermark message; commits the pages read so far

A page is short, needs no lock, and may be read any number of times: the log supersedes it. A
split is finished when its last page is committed, completed when the main graph has committed
past the message sent after it. Going live is the main graph's to say.

Pure.
"""

import json
import queue
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ops.backfill.cdc.ports import ScanKey, Source
from ops.backfill.cdc.reader_pool import ReaderPool, Results
from ops.backfill.cdc.split import CdcTableSnapshotSplit, vnode_of_split
from ops.backfill.cdc.split_reader import Pages, SplitReader
from ops.backfill.cdc.state_v2 import Page, SplitState
from ops.backfill.cdc.transaction_buffer import PREFIX
from ops.backfill.gate import BackfillGate, wanted_controls
from ops.barrier_manager.cdc_progress import CdcProgress, CdcProgressReporter
from ops.barrier_worker.commit import EpochCommit, commit_epoch
from ops.barrier_worker.lease import LeaseKeeper, require_term
from ops.common.epoch import Epoch, next_epoch
from ops.common.errors import (
    BackfillVersionChanged,
    RelationEnded,
    TableStopped,
    TermOver,
)
from ops.common.ports import Clock, Failpoint, Statements, Store
from ops.common.table.relation import Relation, Role
from ops.planner.plan import TablePlan

TICK_SECONDS = 0.5

Splits = dict[int, SplitState]


@dataclass(frozen=True, slots=True)
class VnodeDone:
    vnode: int
    rows: int
    bytes: int
    seconds: float


@dataclass
class TableBackfill(ABC):
    plan: TablePlan
    relation: Relation
    scan: ScanKey
    """The key's columns, in the order in which they are read."""
    store: Store
    source: Source
    pages: Pages
    clock: Clock
    failpoint: Failpoint
    keeper: LeaseKeeper
    leaving: Callable[[], bool] = lambda: False
    """Asked about twice a second: nobody wants the rest any more."""

    version: ClassVar[int]

    @abstractmethod
    def cut(self) -> tuple[Sequence[CdcTableSnapshotSplit], int | None]:
        """Return the splits, and about how many rows there are, if somebody knows."""

    @abstractmethod
    def readers(self) -> int:
        """Return how many readers there may be now."""

    @abstractmethod
    def offsets(self, splits: Splits, lsn: int) -> Mapping[str, Any] | None:
        """Return what an epoch's commit says beside its files; its message lies at `lsn`."""

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
        self.gate = BackfillGate(
            self.relation.name,
            lambda: wanted_controls(self.store, self.relation.id),
            self.clock,
        )
        self.gate.look()
        pool = ReaderPool(self.relation.graph, todo, self._read(), wanted=self.readers)
        try:
            unfinished = {s.split_id for s in todo}
            while unfinished and not self.leaving():
                self.keeper.check()
                self.gate.look()
                pool.adjust()
                pages = self._gather(pool.results)
                if not pages:
                    continue
                self._commit(pages, splits)
                unfinished -= {p.split_id for p in pages if p.finished}
                reporter.report(self._progress(splits))
                yield from self._finished(splits, waiting)
        finally:
            self.gate.close()
            pool.join()

    def _read(self) -> Callable[[SplitState], Iterator[Page]]:
        if not self.plan.snapshot:
            return _nothing
        return SplitReader(
            self.relation,
            self.keeper.term.term,
            self.store,
            self.pages,
            self.clock,
            self.failpoint,
            self.gate,
            self.plan.page_rows,
        ).read

    def _splits(self) -> list[SplitState]:
        rows = self.store.query("select_splits", relation=self.relation.id)
        found = [SplitState.from_row(row) for row in rows]
        for split in found:
            if split.version != self.version:
                raise BackfillVersionChanged(
                    self.relation.name, begun=split.version, asked=self.version
                )
        return found

    def _plan_splits(self) -> list[SplitState]:
        """Cut the key's range once; the cut is kept, so that a restart reads the same splits."""
        splits, rows = self.cut()
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
                    version=self.version,
                    left_key=_json(split.left),
                    right_key=_json(split.right),
                )
            tx.execute("set_snapshot_rows", relation=self.relation.id, rows=rows)
            tx.execute(
                "set_relation_state", relation=self.relation.id, state="Backfilling", why=None
            )
        self.failpoint("backfill.after_plan_splits")
        return self._splits()

    def _gather(self, results: Results) -> list[Page]:
        """Return the pages of one tick; an empty list when none came in its time."""
        pages: list[Page] = []
        deadline = self.clock.monotonic() + TICK_SECONDS
        while True:
            left = deadline - self.clock.monotonic()
            # What has come already is taken along, and nothing more is waited for.
            due = left <= 0 or any(p.finished for p in pages)
            try:
                result = results.get(block=not due, timeout=None if due else left)
            except queue.Empty:
                return pages
            if isinstance(result, BaseException):
                raise result
            pages.append(result)

    def _commit(self, pages: list[Page], splits: Splits) -> None:
        epoch = next_epoch(self._committed, self.clock.now_ms())
        said = {
            "graph": self.relation.graph,
            "generation": self.keeper.term.generation,
            "term": self.keeper.term.term,
            "epoch": epoch,
        }
        self.failpoint("backfill.before_watermark")
        lsn = self.source.emit_message(PREFIX, json.dumps(said))
        self.failpoint("backfill.after_watermark")
        after = dict(splits)
        for page in pages:
            after[page.split_id] = after[page.split_id].after(page, epoch)

        def also(tx: Statements) -> None:
            self._require_not_stopped(tx)
            for page in pages:
                self._advance_split(tx, page, epoch)
            if all(split.finished for split in after.values()):
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
                attempts=[p.attempt for p in pages if p.attempt is not None],
                files=[p.file for p in pages if p.file is not None],
                offsets=self.offsets(after, lsn),
            ),
            failpoint=self.failpoint,
            name="backfill",
            also=also,
        )
        self._committed = epoch
        splits.update(after)

    def _advance_split(self, tx: Statements, page: Page, epoch: Epoch) -> None:
        touched = tx.execute(
            "advance_split",
            relation=self.relation.id,
            split_id=page.split_id,
            generation=self.keeper.term.generation,
            cursor=_json(page.cursor),
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

    def _finished(self, splits: Splits, waiting: set[int]) -> Iterator[VnodeDone]:
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

    def _progress(self, splits: Splits) -> CdcProgress:
        finished = sum(s.finished for s in splits.values())
        rows = sum(s.rows for s in splits.values())
        return CdcProgress(self.keeper.term.generation, len(splits), finished, 0, rows)

    def _vnode(self, split_id: int) -> int:
        return vnode_of_split(split_id, self.relation.vnode_count)


def _nothing(split: SplitState) -> Iterator[Page]:
    """The one page of a table without a snapshot."""
    yield Page(split.split_id, None, None, 0, 0, 0.0, None, finished=True)


def _json(key: tuple[str, ...] | None) -> str | None:
    return None if key is None else json.dumps(key)
