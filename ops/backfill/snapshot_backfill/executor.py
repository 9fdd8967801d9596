"""Build a view beside its running table: a snapshot at one epoch, then the log, then in step.

    pin        E = the main graph's committed epoch; the table's log after E is kept for us
    waves      rows of some vnodes as of E -> group states; progress commits with them
    output     after the last wave, the view's rows; the view's epoch is now E
    follow     (own epoch, main's committed epoch] as one netted range, again and again
    finishing  little is left: the main graph takes the rest into one of its checkpoints

A pause of the pipeline is kept between two waves and between two ranges.

Spark.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ops.aggregate.view_executor import ViewExecutor
from ops.backfill.gate import wanted_controls
from ops.backfill.snapshot_backfill.phase import (
    Phase,
    VnodeBackfillProgress,
    next_waves,
    wave_epoch,
)
from ops.barrier_manager.progress import CreateMviewProgressReporter
from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import LeaseKeeper, require_term
from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.errors import RelationEnded, TableStopped
from ops.common.ports import Clock, Failpoint, Statements, Store
from ops.common.table.relation import (
    Contents,
    Relation,
    StagedFile,
    changed_files,
    contents,
    listing,
    target_pin,
    versions_of,
)
from ops.common.table.state_table import StateTable

ROWS_PER_WAVE = 2_000_000
POLL_SECONDS = 0.2
REJOIN_SECONDS = 5.0
"""A range that took no longer than this is small enough for the main graph to finish."""


Also = Callable[[Statements], None]


@dataclass(frozen=True, slots=True)
class VnodeDone:
    vnode: int
    rows: int


@dataclass
class SnapshotBackfillExecutor:
    view: ViewExecutor
    main_graph: str
    store: Store
    clock: Clock
    failpoint: Failpoint
    keeper: LeaseKeeper
    leaving: Callable[[], bool] = lambda: False
    """Asked between two steps: nobody wants the rest any more."""

    def run(self, vnodes: Collection[int]) -> Iterator[VnodeDone]:
        """Read the snapshot of `vnodes`; whoever finishes the last vnode follows the log too."""
        self._committed = self.keeper.term.committed
        relation = self._relation()
        if Phase(relation.state) is Phase.STOPPED:
            raise TableStopped(relation.name, relation.why or "")
        if Phase(relation.state) is Phase.WAITING:
            if not self._await_upstream():
                return
            relation = self._begin()
        reporter = CreateMviewProgressReporter(relation.name)
        if Phase(relation.state) is Phase.SNAPSHOT:
            assert relation.snapshot_epoch is not None
            yield from self._consume_snapshot(relation.snapshot_epoch, vnodes, reporter)
        else:
            yield from self._report_finished(vnodes)
        if Phase(self._relation().state) is Phase.LOG:
            self._consume_log(reporter)

    def _await_upstream(self) -> bool:
        """Wait until the table is live or the view in step; False when nobody wants that."""
        upstream = self.view.upstream
        while self._may_go_on():
            found = self._now(upstream)
            if found.is_whole:
                return True
            if found.state == "Stopped":
                raise TableStopped(found.name, found.why or "")
            self.clock.sleep(POLL_SECONDS)
        return False

    def _may_go_on(self) -> bool:
        """Wait for the end of a pause; False when nobody wants the rest any more."""
        while not self.leaving():
            self.keeper.check()
            if not wanted_controls(self.store, self.view.output.id).paused:
                return True
            self.clock.sleep(POLL_SECONDS)
        return False

    def _begin(self) -> Relation:
        """Pin the epoch the snapshot is read at."""
        upstream = self.view.upstream
        self.failpoint("snapshot.before_pin")
        with self.store.transaction() as tx:
            self._require_term(tx)
            tx.query("lock_relation", relation=upstream.id)
            # Read under the lock: no merge can pass over this epoch any more.
            epoch = self._upstream_epoch(tx)
            tx.execute(
                "upsert_pin", relation=upstream.id, owner=self.keeper.term.graph, epoch=epoch
            )
            tx.execute("set_view_snapshot", relation=self.view.output.id, epoch=epoch)
            found = contents(tx, upstream, epoch)
            counted = _rows(found) if found.base is None else None
            tx.execute("set_snapshot_rows", relation=self.view.output.id, rows=counted)
        self.failpoint("snapshot.after_pin")
        return self._relation()

    def _consume_snapshot(
        self, epoch: Epoch, vnodes: Collection[int], reporter: CreateMviewProgressReporter
    ) -> Iterator[VnodeDone]:
        upstream = contents(self.store, self.view.upstream, epoch)
        progress = self._progress()
        count = self.view.output.vnode_count
        yield from self._report_finished(vnodes)
        waves = next_waves(
            list(vnodes),
            progress,
            rows=_rows(upstream),
            vnode_count=count,
            rows_per_wave=ROWS_PER_WAVE,
        )
        for wave in waves:
            if not self._may_go_on():
                return
            rows = self._wave(upstream, wave)
            progress = self._progress()
            total = sum(p.row_count for p in progress.values())
            reporter.update(epoch, total)
            for vnode in wave:
                yield VnodeDone(vnode, rows[vnode])
        if sum(p.is_finished for p in progress.values()) == count:
            self._commit_output(epoch)
            reporter.finish(sum(p.row_count for p in progress.values()))

    def _wave(self, upstream: Contents, vnodes: tuple[int, ...]) -> dict[int, int]:
        epoch = upstream.as_of
        label = wave_epoch(self._committed)
        attempt = self._attempt()
        table = StateTable(self.view.spark, self.view.lake, self.view.upstream)
        rows = table.rows_of_vnodes(upstream, vnodes)
        counts = table.count_by_vnode(rows)
        files = self.view.apply_snapshot(
            rows,
            states=self._states(),
            attempt=attempt,
            after=self._committed,
            epoch=label,
        )
        counted = {vnode: counts.get(vnode, 0) for vnode in vnodes}
        self._commit_wave(label, attempt, files, counted, epoch)
        return counted

    def _commit_wave(
        self,
        label: Epoch,
        attempt: Attempt,
        files: list[StagedFile],
        counted: dict[int, int],
        snapshot_epoch: Epoch,
    ) -> None:
        def also(tx: Statements) -> None:
            for vnode, rows in counted.items():
                tx.execute(
                    "upsert_vnode_progress",
                    relation=self.view.output.id,
                    vnode=vnode,
                    epoch=snapshot_epoch,
                    row_count=rows,
                    is_finished=True,
                )

        self._commit(label, attempt, files, name="snapshot", also=also)

    def _commit_output(self, epoch: Epoch) -> None:
        """The view as of the snapshot epoch, from its finished states."""
        attempt = self._attempt()
        files = self.view.stage_output(states=self._states(), attempt=attempt)

        def also(tx: Statements) -> None:
            tx.execute(
                "set_relation_state",
                relation=self.view.output.id,
                state=Phase.LOG.value,
                why=None,
            )

        self._commit(epoch, attempt, files, name="snapshot", also=also)

    def _consume_log(self, reporter: CreateMviewProgressReporter) -> None:
        """Follow until a range is small enough for the main graph, and leave the rest to it."""
        while self._may_go_on():
            target = self._next_target()
            reporter.update_create_mview_log_store_progress(target - self._committed)
            started = self.clock.monotonic()
            if target > self._committed:
                self._follow(target)
            if self.clock.monotonic() - started <= REJOIN_SECONDS:
                self._announce()
                reporter.finish_consuming_log_store()
                return

    def _next_target(self) -> Epoch:
        """Return how far the next range goes, pinned: a merge must not pass over its end."""
        graph, upstream = self.keeper.term.graph, self.view.upstream.id
        self.failpoint("follow.before_pin")
        with self.store.transaction() as tx:
            self._require_term(tx)
            tx.query("lock_relation", relation=upstream)
            target = self._upstream_epoch(tx)
            tx.execute("upsert_pin", relation=upstream, owner=target_pin(graph), epoch=target)
        self.failpoint("follow.after_pin")
        return target

    def _upstream_epoch(self, tx: Statements) -> Epoch:
        """Return how far the upstream is: a table moves with the main graph, a view by itself."""
        upstream = self.view.upstream
        graph = upstream.graph if upstream.kind == "view" else self.main_graph
        return Epoch(tx.query("select_graph", graph=graph)[0]["committed"])

    def _follow(self, target: Epoch) -> None:
        upstream = self.view.upstream
        attempt = self._attempt()
        listed = listing(self.store, upstream)
        files = changed_files(upstream, listed, self._committed, target)
        staged = self.view.apply(
            files,
            before=contents(self.store, upstream, self._committed),
            states=self._states(),
            attempt=attempt,
            after=self._committed,
            epoch=target,
        )

        def also(tx: Statements) -> None:
            tx.query("lock_relation", relation=upstream.id)
            tx.execute(
                "upsert_pin", relation=upstream.id, owner=self.keeper.term.graph, epoch=target
            )

        self._commit(target, attempt, staged, name="follow", also=also)

    def _announce(self) -> None:
        self.failpoint("follow.before_announce")
        with self.store.transaction() as tx:
            self._require_term(tx)
            tx.execute(
                "set_relation_state",
                relation=self.view.output.id,
                state=Phase.FINISHING.value,
                why=None,
            )
        self.failpoint("follow.after_announce")

    def _commit(
        self, epoch: Epoch, attempt: Attempt, files: list[StagedFile], *, name: str, also: Also
    ) -> None:
        commit_epoch(
            self.store,
            EpochCommit(
                graph=self.keeper.term.graph,
                term=self.keeper.term.term,
                prev=self._committed,
                epoch=epoch,
                attempts=(attempt.id,),
                files=files,
            ),
            failpoint=self.failpoint,
            name=name,
            also=also,
        )
        self._committed = epoch

    def _states(self) -> dict[int, Contents]:
        return {r.id: contents(self.store, r, self._committed) for r in self.view.states}

    def _attempt(self) -> Attempt:
        term = self.keeper.term
        parent = f"{self.view.output.path}/_attempts"
        return open_attempt(self.store, term.graph, term.term, parent, failpoint=self.failpoint)

    def _relation(self) -> Relation:
        return self._now(self.view.output)

    def _now(self, relation: Relation) -> Relation:
        """Return how a version is by now; it may have ended."""
        for found in versions_of(self.store, relation.pipeline):
            if found.id == relation.id:
                return found
        raise RelationEnded(relation.graph)

    def _progress(self) -> dict[int, VnodeBackfillProgress]:
        rows = self.store.query("select_vnode_progress", relation=self.view.output.id)
        return {row["vnode"]: VnodeBackfillProgress(**row) for row in rows}

    def _report_finished(self, vnodes: Collection[int]) -> Iterator[VnodeDone]:
        progress = self._progress()
        for vnode in sorted(vnodes):
            if vnode in progress and progress[vnode].is_finished:
                yield VnodeDone(vnode, progress[vnode].row_count)

    def _require_term(self, tx: Statements) -> None:
        require_term(tx, self.keeper.term.graph, self.keeper.term.term)


def _rows(upstream: Contents) -> int:
    """Return about how many rows the table has; a base's count is not kept, files' are."""
    return sum(f.rows for f in (*upstream.snapshots, *upstream.logs))
