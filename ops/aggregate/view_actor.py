"""A view inside its pipeline's main graph: in step, or waiting to be taken in.

    out of step   collects each barrier at once, with nothing
    Barrier       so does everyone: the table has staged nothing
    Add(view)     computes everything after its own epoch, this epoch included: it is in step
    in step       computes the epoch from the log file its table has just staged
    an error      falls out of step, with the views that read this one; the barrier is collected
                  all the same, the others go on

A view that reads a view computes after it, from the file that one has just staged.

Each computation writes as an attempt of its own: what a view that failed has written belongs to
no epoch, though the epoch is committed.

Spark.
"""

import queue
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ops.aggregate.view_executor import ViewExecutor
from ops.barrier_manager.manager import LocalBarrierManager
from ops.barrier_manager.progress import CreateMviewProgressReporter
from ops.barrier_worker.reports import ViewOutput
from ops.common.barrier import Attempt, Barrier
from ops.common.epoch import Epoch
from ops.common.errors import Fenced, UpstreamOutOfStep
from ops.common.ports import Store
from ops.common.table.relation import (
    DataFile,
    StagedFile,
    changed_files,
    contents,
    listing,
)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What the upstream has staged for a barrier; `failed` says why it has nothing."""

    barrier: Barrier
    files: tuple[StagedFile, ...]
    failed: str | None


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
        self.view = executor.output.label
        self.actor = f"view/{self.view}"
        self._executor, self._store = executor, store
        self._in_step, self._open_attempt = in_step, open_attempt
        self._committed, self._epoch_of_view = committed, epoch_of_view
        self._input: queue.SimpleQueue[_Arrived] = queue.SimpleQueue()
        self.downstream: list[ViewActor] = []

    def forward(
        self, barrier: Barrier, files: tuple[StagedFile, ...], *, failed: str | None = None
    ) -> None:
        """Take what the upstream staged for the barrier's epoch, or that it has failed to."""
        self._input.put(_Arrived(barrier, files, failed))

    def run(self, manager: LocalBarrierManager) -> None:
        barriers = manager.subscribe_barrier(self.actor)
        while True:
            manager.require_open()
            barrier = barriers.take(timeout=0.5)
            if barrier is None:
                continue
            output = None
            if barrier.kind.is_checkpoint:
                arrived = self._await_upstream(barrier, manager)
                rejoining = self.view in barrier.rejoining
                if self._in_step or rejoining:
                    output = self._compute(barrier, arrived)
                    self._in_step = output.failed is None
                self._pass_on(barrier, output)
                if rejoining and self._in_step:
                    self._report_done(barrier, manager)
            manager.collect(self.actor, barrier, output)
            if barrier.stops_actor(self.actor):
                return

    def _report_done(self, barrier: Barrier, manager: LocalBarrierManager) -> None:
        report = partial(manager.report_create_progress, self.actor, barrier, self.view)
        CreateMviewProgressReporter(self.view, report=report).finish_consuming_log_store()

    def _pass_on(self, barrier: Barrier, output: ViewOutput | None) -> None:
        failed = None if output is None or output.failed is None else str(output.failed)
        files = () if output is None or failed is not None else output.files
        for view in self.downstream:
            view.forward(barrier, files, failed=failed)

    def _await_upstream(self, barrier: Barrier, manager: LocalBarrierManager) -> "_Arrived":
        while True:
            manager.require_open()
            try:
                arrived = self._input.get(timeout=0.5)
                break
            except queue.Empty:
                continue
        assert arrived.barrier.epoch == barrier.epoch, (arrived, barrier)
        return arrived

    def _compute(self, barrier: Barrier, arrived: "_Arrived") -> ViewOutput:
        view, attempt = self.view, None
        after = self._epoch_of_view()
        if arrived.failed is not None:
            error = UpstreamOutOfStep(view, self._executor.upstream.name, arrived.failed)
            return ViewOutput(view, after, failed=error)
        staged = [f for f in arrived.files if f.relation == self._executor.upstream.id]
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
