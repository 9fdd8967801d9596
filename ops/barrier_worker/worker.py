"""The coordinator of a main graph: when, who, and the commit.

    1. take the lease with a new term; what is uncommitted is forgotten
    2. Initial barrier at the committed epoch; every actor collects it
    3. when a barrier is due: register the attempt, write the barrier down, hand it to the actors
    4. every actor has collected. A Barrier ends here: what the sources hold waits for the next
       checkpoint. A checkpoint commits epoch, files, offsets, watermarks, states of tables and
       views in one transaction, for itself and the Barriers since the last one
    5. tell the source what is committed; it confirms the slot
    6. a failed actor: the graph is suspended, reset (`recovery` has the machine), and started
       again by the caller from what is committed, or the cause goes up

At most one barrier is under way: a view's states are read as of the epoch before.

Pure.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ops.barrier_manager.events import ActorCollected, ActorFailed, CdcSourceOffsetUpdated, Report
from ops.barrier_manager.manager import GraphReset, LocalBarrierManager
from ops.barrier_worker import recovery
from ops.barrier_worker.commit import fail_attempt, open_attempt
from ops.barrier_worker.lease import LeaseKeeper
from ops.barrier_worker.managed_state import Issued, ManagedBarrierState
from ops.barrier_worker.schedule import Look, Schedule
from ops.common.barrier import Add, Barrier, BarrierKind, Mutation, Stop
from ops.common.controls import Controls, apply, mutations
from ops.common.epoch import ZERO, Epoch, EpochPair, next_epoch
from ops.common.ports import Clock, Failpoint, Store

TICK_SECONDS = 0.03
JOIN_SECONDS = 30.0
TRIM_EVERY = 500
KEPT_BARRIERS = 1000
COORDINATOR = "coordinator"


class Actor(Protocol):
    actor: str

    def run(self, manager: LocalBarrierManager) -> None: ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A checkpoint every actor has collected, with what each said; it covers these epochs."""

    barrier: Barrier
    committed: Epoch
    term: int
    outputs: Mapping[str, object]
    commands: tuple[int, ...]
    covers: tuple[Epoch, ...] = ()
    reports: Mapping[tuple[str, str], Report] = field(default_factory=dict)


class MainGraph(Protocol):
    """What the worker leaves to its graph: who takes part, what waits, how to commit."""

    def actors(self) -> Sequence[Actor]: ...
    def has_work(self) -> bool: ...
    def is_full(self) -> bool: ...
    def take_in(self, views: tuple[str, ...]) -> None: ...
    def commit(self, completed: Completed) -> None: ...
    def after_commit(self, completed: Completed) -> None: ...
    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Due:
    kind: BarrierKind
    mutation: Mutation | None
    commands: tuple[int, ...]


@dataclass
class BarrierWorker:
    pipeline: str
    graph: str
    store: Store
    clock: Clock
    failpoint: Failpoint
    keeper: LeaseKeeper
    idle_s: float
    committed: Epoch = ZERO
    controls: Controls = field(default_factory=Controls)
    waiting_rows: int = 0
    """Rows the sources had gathered at the last barrier and no checkpoint had taken."""
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _untrimmed: int = 0

    def run(self, graph: MainGraph, *, until: Callable[[], bool] = lambda: False) -> bool:
        """Make barriers until a stop is commanded or `until` says so; the last one stops all.

        Returns False when a relation was added meanwhile: the graph must be made anew with it.
        """
        actors = graph.actors()
        manager = LocalBarrierManager(self.graph, tuple(a.actor for a in actors))
        state = ManagedBarrierState(self.graph, frozenset(manager.actors))
        self.committed = self.keeper.term.committed
        self._start(actors, manager)
        try:
            self._inject_initial(state, manager)
            return self._take_barriers(graph, state, manager, until)
        except Exception as error:
            cause = self._reset(manager, error)
            if cause is error:
                raise
            raise cause from error
        finally:
            manager.close()
            for thread in self._threads.values():
                thread.join(timeout=JOIN_SECONDS)

    def _take_barriers(
        self,
        graph: MainGraph,
        state: ManagedBarrierState,
        manager: LocalBarrierManager,
        until: Callable[[], bool],
    ) -> bool:
        last = self.clock.monotonic()
        while True:
            self.keeper.check()
            self._hear(state, manager)
            pending = self._pending()
            if pending["rebind"]:
                return False
            stopping = pending["stop"] or until()
            since = self.clock.monotonic() - last
            due = self._due(graph, state, pending, since_last_s=since, stopping=stopping)
            if due is None:
                self.clock.sleep(TICK_SECONDS)
                continue
            if isinstance(due.mutation, Add):
                graph.take_in(due.mutation.views)
            last = self.clock.monotonic()
            completed = self._barrier(state, manager, due)
            if completed is not None:
                graph.commit(completed)
                self.committed = completed.barrier.epoch.prev
                graph.after_commit(completed)
            if stopping:
                graph.finish()
                return True

    def _pending(self) -> dict[str, Any]:
        return self.store.query(
            "select_pending", pipeline=self.pipeline, term=self.keeper.term.term
        )[0]

    def _due(
        self,
        graph: MainGraph,
        state: ManagedBarrierState,
        pending: dict[str, Any],
        *,
        since_last_s: float,
        stopping: bool,
    ) -> _Due | None:
        turn = mutations(self.controls, Controls(paused=pending["paused"]))
        paused = self.controls.paused
        rejoining = () if paused or turn else tuple(pending["rejoining"])
        # A flush must see what the source holds now: a graph that does not poll holds it back.
        flushes = () if turn or paused else tuple(pending["flushes"])
        commands = (*flushes, *pending["controls"])
        kind = Schedule(
            pending["interval_ms"] / 1000, self.idle_s, pending["checkpoint_frequency"]
        ).due(
            Look(
                since_last_s=since_last_s,
                granted=pending["granted"],
                work=graph.has_work() or bool(rejoining) or pending["ready"] or pending["repairs"],
                commands=bool(commands) or bool(turn) or stopping,
                must_checkpoint=bool(rejoining) or pending["repairs"],
                full=graph.is_full(),
                paused=paused,
                pending=len(state.issued),
                uncheckpointed=len(state.uncheckpointed),
            )
        )
        if kind is None:
            return None
        if stopping:
            return _Due(kind, Stop(), commands)
        if turn:
            return _Due(kind, turn[0], commands)
        return _Due(kind, Add(rejoining) if rejoining else None, commands)

    def _barrier(
        self, state: ManagedBarrierState, manager: LocalBarrierManager, due: _Due
    ) -> Completed | None:
        """Make a barrier and wait until all have collected it; None if there is no commit."""
        assert state.last is not None
        prev = state.last.epoch.curr
        pair = EpochPair(curr=next_epoch(prev, self.clock.now_ms()), prev=prev)
        term = self.keeper.term.term
        if not due.kind.is_checkpoint:
            self._pass(state, manager, Barrier(pair, due.kind, due.mutation))
            return None
        attempt = open_attempt(
            self.store, self.graph, term, f"{self.pipeline}/_stream", failpoint=self.failpoint
        )
        barrier = Barrier(pair, due.kind, due.mutation, attempt)
        try:
            issued = self._pass(state, manager, barrier)
        except Exception:
            # Else the end of the term does it: what went wrong may be the store.
            with contextlib.suppress(Exception):
                fail_attempt(self.store, attempt, failpoint=self.failpoint)
            raise
        return Completed(
            barrier,
            self.committed,
            term,
            issued.outputs,
            due.commands,
            issued.covers,
            issued.reports,
        )

    def _inject_initial(self, state: ManagedBarrierState, manager: LocalBarrierManager) -> None:
        prev = self.committed
        pair = EpochPair(curr=next_epoch(prev, self.clock.now_ms()), prev=prev)
        wanted = Controls(paused=self._pending()["paused"])
        # A graph that is wanted paused starts paused.
        turn = mutations(Controls(), wanted)
        self.controls = Controls()
        self._pass(state, manager, Barrier(pair, BarrierKind.INITIAL, turn[0] if turn else None))

    def _pass(
        self, state: ManagedBarrierState, manager: LocalBarrierManager, barrier: Barrier
    ) -> Issued:
        """Hand a barrier to the actors; return once all have collected it."""
        self._inject(state, manager, barrier)
        issued = self._await_collected(state, manager, barrier)
        if barrier.mutation is not None:
            self.controls = apply(self.controls, barrier.mutation)
        found = [r for r in issued.reports.values() if isinstance(r, CdcSourceOffsetUpdated)]
        self.waiting_rows = sum(report.rows for report in found)
        return issued

    def _inject(
        self, state: ManagedBarrierState, manager: LocalBarrierManager, barrier: Barrier
    ) -> None:
        state.inject(barrier)
        self.failpoint("tick.before_inject")
        self.store.execute(
            "insert_barrier",
            graph=self.graph,
            prev=barrier.epoch.prev,
            curr=barrier.epoch.curr,
            term=self.keeper.term.term,
            kind=barrier.kind.value,
            mutation=None if barrier.mutation is None else type(barrier.mutation).__name__,
            waiting_rows=self.waiting_rows,
        )
        self._trim()
        self.failpoint("tick.after_inject")
        manager.send(barrier)

    def _trim(self) -> None:
        self._untrimmed += 1
        if self._untrimmed >= TRIM_EVERY:
            self._untrimmed = 0
            self.store.execute("trim_barriers", graph=self.graph, keep=KEPT_BARRIERS)

    def _await_collected(
        self, state: ManagedBarrierState, manager: LocalBarrierManager, barrier: Barrier
    ) -> Issued:
        while True:
            self.keeper.check()
            for issued in self._hear(state, manager, timeout=0.5):
                if issued.barrier == barrier:
                    return issued

    def _hear(
        self, state: ManagedBarrierState, manager: LocalBarrierManager, *, timeout: float = 0.001
    ) -> list[Issued]:
        """Take one event; return the barriers it completes. A failure is raised."""
        match manager.next_event(timeout):
            case None:
                return []
            case ActorFailed(_, error):
                raise error
            case ActorCollected(actor, barrier, output):
                complete = state.collect(actor, barrier, output)
                for issued in complete:
                    manager.completed(issued.barrier)
                return complete
            case report:
                state.report(report)
                return []

    def _reset(self, manager: LocalBarrierManager, error: Exception) -> BaseException:
        """End every actor, and return what it all came from."""
        manager.close()
        # Who has ended is asked before what was said: an actor says it, and then ends.
        left = self._alive()
        heard = manager.failures
        state: recovery.State = recovery.Running()
        if all(failure.error is not error for failure in heard):
            state = recovery.step(state, recovery.Failure(COORDINATOR, error))
        for failure in heard:
            state = recovery.step(state, recovery.Failure(failure.actor, failure.error))
        state = recovery.step(state, recovery.Reset(left))
        deadline = self.clock.monotonic() + recovery.GRACE_SECONDS
        while not isinstance(state, recovery.Ended):
            self._threads[min(left)].join(TICK_SECONDS)
            alive = self._alive()
            said = manager.failures
            late, heard = said[len(heard) :], said
            for failure in late:
                state = recovery.step(state, recovery.Failure(failure.actor, failure.error))
            for actor in left - alive:
                state = recovery.step(state, recovery.ActorEnded(actor))
            left = alive
            if left and self.clock.monotonic() >= deadline:
                state = recovery.step(state, recovery.GraceOver())
        return state.root.error

    def _alive(self) -> frozenset[str]:
        return frozenset(name for name, thread in self._threads.items() if thread.is_alive())

    def _start(self, actors: Sequence[Actor], manager: LocalBarrierManager) -> None:
        def run(actor: Actor) -> None:
            try:
                actor.run(manager)
            except GraphReset:
                return
            except BaseException as error:
                manager.notify_failure(actor.actor, error)

        self._threads = {
            a.actor: threading.Thread(
                target=run, args=(a,), name=f"{self.graph} {a.actor}", daemon=True
            )
            for a in actors
        }
        for thread in self._threads.values():
            thread.start()
