"""A view inside its pipeline's main graph: in step, or waiting to be taken in.

    out of step   collects each barrier at once, with nothing
    Barrier       so does everyone: the table has staged nothing
    Add(view)     computes everything after its own epoch, this epoch included: it is in step
    in step       computes the epoch from the log file its table has just staged
    an error      falls out of step; the barrier is collected all the same, the others go on

Each computation writes as an attempt of its own: what a view that failed has written belongs to
no epoch, though the epoch is committed.

Spark.
"""

import queue
from collections.abc import Callable
from functools import partial

from ops.aggregate.view_executor import ViewExecutor
from ops.barrier_manager.manager import LocalBarrierManager
from ops.barrier_manager.progress import CreateMviewProgressReporter
from ops.barrier_worker.reports import ViewOutput
from ops.common.barrier import Attempt, Barrier
from ops.common.epoch import Epoch
from ops.common.errors import Fenced
from ops.common.ports import Store
from ops.common.table.relation import (
    DataFile,
    StagedFile,
    changed_files,
    contents,
    listing,
)


class ViewActor:
    """`committed` tells the main graph's last committed epoch, `epoch_of_view` the view's own."""

    def __init__(
        self,
        executor: ViewExecutor,
        *,
        store: Store,
        in_step: bool,
        open_attempt: Callable[[], Attempt],
        committed: Callable[[], Epoch],
        epoch_of_view: Callable[[], Epoch],
    ) -> None:
        self.actor = f"view/{executor.output.name}"
        self._executor, self._store = executor, store
        self._in_step, self._open_attempt = in_step, open_attempt
        self._committed, self._epoch_of_view = committed, epoch_of_view
        self._input: queue.SimpleQueue[tuple[Barrier, tuple[StagedFile, ...]]] = queue.SimpleQueue()

    def forward(self, barrier: Barrier, files: tuple[StagedFile, ...]) -> None:
        """Take what the source staged for the barrier's epoch."""
        self._input.put((barrier, files))

    def run(self, manager: LocalBarrierManager) -> None:
        barriers = manager.subscribe_barrier(self.actor)
        while True:
            manager.require_open()
            barrier = barriers.take(timeout=0.5)
            if barrier is None:
                continue
            output = None
            if barrier.kind.is_checkpoint:
                staged = self._staged(barrier, manager)
                rejoining = self._executor.output.name in barrier.rejoining
                if self._in_step or rejoining:
                    output = self._compute(barrier, staged)
                    self._in_step = output.failed is None
                if rejoining and self._in_step:
                    self._report_done(barrier, manager)
            manager.collect(self.actor, barrier, output)
            if barrier.stops_actor(self.actor):
                return

    def _report_done(self, barrier: Barrier, manager: LocalBarrierManager) -> None:
        view = self._executor.output.name
        report = partial(manager.report_create_progress, self.actor, barrier, view)
        CreateMviewProgressReporter(view, report=report).finish_consuming_log_store()

    def _staged(self, barrier: Barrier, manager: LocalBarrierManager) -> list[StagedFile]:
        while True:
            manager.require_open()
            try:
                arrived, files = self._input.get(timeout=0.5)
                break
            except queue.Empty:
                continue
        assert arrived.epoch == barrier.epoch, (arrived, barrier)
        return [f for f in files if f.relation == self._executor.upstream.id]

    def _compute(self, barrier: Barrier, staged: list[StagedFile]) -> ViewOutput:
        view, attempt = self._executor.output.name, None
        after = self._epoch_of_view()
        try:
            changed = self._changed(staged, after)
            if not changed:
                return ViewOutput(view, after)
            attempt = self._open_attempt()
            files = self._executor.apply(
                changed,
                before=contents(self._store, self._executor.upstream, after),
                states={r.id: contents(self._store, r, after) for r in self._executor.states},
                attempt=attempt,
                after=after,
                epoch=barrier.epoch.prev,
            )
        except Fenced:
            raise
        except Exception as error:
            return ViewOutput(view, after, attempt, failed=error)
        return ViewOutput(view, after, attempt, tuple(files))

    def _changed(self, staged: list[StagedFile], after: Epoch) -> list[DataFile | StagedFile]:
        """Return the log files after the view's own epoch, this epoch's included."""
        upstream, committed = self._executor.upstream, self._committed()
        if after == committed:
            return list(staged)
        listed = listing(self._store, upstream)
        return [*changed_files(upstream, listed, after, committed), *staged]
