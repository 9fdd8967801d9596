"""The coordinator of a main graph: when, who, and the commit.

    1. take the lease with a new term; what is uncommitted is forgotten
    2. Initial barrier at the committed epoch; every actor collects it
    3. when a barrier is due: register the attempt, write the barrier down, hand it to the actors
    4. every actor has collected: commit epoch, files, offsets, watermarks, states of tables and
       views in one transaction
    5. tell the source what is committed; it confirms the slot
    6. a failed actor: the graph is torn down, and started again from what is committed, or the
       error goes up

At most one barrier is under way: a view's states are read as of the epoch before.

Pure.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ops.barrier_manager.events import ActorFailed
from ops.barrier_manager.manager import GraphReset, LocalBarrierManager
from ops.barrier_worker.commit import fail_attempt, open_attempt
from ops.barrier_worker.lease import LeaseKeeper
from ops.barrier_worker.managed_state import ManagedBarrierState
from ops.barrier_worker.schedule import Schedule
from ops.common.barrier import Add, Barrier, BarrierKind, Mutation, Stop
from ops.common.epoch import ZERO, Epoch, EpochPair, next_epoch
from ops.common.ports import Clock, Failpoint, Store

TICK_SECONDS = 0.03


class Actor(Protocol):
    actor: str

    def run(self, manager: LocalBarrierManager) -> None: ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A barrier every actor has collected, with what each said."""

    barrier: Barrier
    committed: Epoch
    term: int
    outputs: dict[str, object]
    commands: tuple[int, ...]


class MainGraph(Protocol):
    """What the worker leaves to its graph: who takes part, what waits, how to commit."""

    def actors(self) -> Sequence[Actor]: ...
    def has_work(self) -> bool: ...
    def take_in(self, views: tuple[str, ...]) -> None: ...
    def commit(self, completed: Completed) -> None: ...
    def after_commit(self, completed: Completed) -> None: ...
    def finish(self) -> None: ...


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
    _threads: list[threading.Thread] = field(default_factory=list)

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
            last = self.clock.monotonic()
            while True:
                self.keeper.check()
                self._raise_failure(manager)
                pending = self.store.query(
                    "select_pending", pipeline=self.pipeline, term=self.keeper.term.term
                )[0]
                if pending["rebind"]:
                    return False
                stopping = pending["stop"] or until()
                commands, rejoining = tuple(pending["commands"]), tuple(pending["rejoining"])
                kind = Schedule(pending["interval_ms"] / 1000, self.idle_s).due(
                    since_last_s=self.clock.monotonic() - last,
                    granted=pending["granted"],
                    work=graph.has_work() or bool(rejoining) or pending["ready"],
                    commands=bool(commands) or stopping,
                )
                if kind is None:
                    self.clock.sleep(TICK_SECONDS)
                    continue
                if rejoining and not stopping:
                    graph.take_in(rejoining)
                mutation = Stop() if stopping else Add(rejoining) if rejoining else None
                last = self.clock.monotonic()
                completed = self._barrier(state, manager, kind, mutation, commands)
                graph.commit(completed)
                self.committed = completed.barrier.epoch.prev
                graph.after_commit(completed)
                if stopping:
                    graph.finish()
                    return True
        finally:
            manager.close()
            for thread in self._threads:
                thread.join(timeout=30)

    def _barrier(
        self,
        state: ManagedBarrierState,
        manager: LocalBarrierManager,
        kind: BarrierKind,
        mutation: Mutation | None,
        commands: tuple[int, ...],
    ) -> Completed:
        assert state.last is not None
        prev = state.last.epoch.curr
        pair = EpochPair(curr=next_epoch(prev, self.clock.now_ms()), prev=prev)
        attempt = open_attempt(
            self.store,
            self.graph,
            self.keeper.term.term,
            f"{self.pipeline}/_stream",
            failpoint=self.failpoint,
        )
        barrier = Barrier(pair, kind, mutation, attempt)
        try:
            self._inject(state, manager, barrier)
            outputs = self._await_collected(state, manager, barrier)
        except Exception:
            fail_attempt(self.store, attempt, failpoint=self.failpoint)
            raise
        return Completed(barrier, self.committed, self.keeper.term.term, outputs, commands)

    def _inject_initial(self, state: ManagedBarrierState, manager: LocalBarrierManager) -> None:
        prev = self.committed
        pair = EpochPair(curr=next_epoch(prev, self.clock.now_ms()), prev=prev)
        barrier = Barrier(pair, BarrierKind.INITIAL)
        self._inject(state, manager, barrier)
        self._await_collected(state, manager, barrier)

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
        )
        self.failpoint("tick.after_inject")
        manager.send(barrier)

    def _await_collected(
        self, state: ManagedBarrierState, manager: LocalBarrierManager, barrier: Barrier
    ) -> dict[str, object]:
        while True:
            self.keeper.check()
            event = manager.next_event(timeout=0.5)
            if event is None:
                continue
            if isinstance(event, ActorFailed):
                raise event.error
            for issued in state.collect(event.actor, event.barrier, event.output):
                manager.completed(issued.barrier)
                if issued.barrier == barrier:
                    return issued.outputs

    def _raise_failure(self, manager: LocalBarrierManager) -> None:
        event = manager.next_event(timeout=0.001)
        if isinstance(event, ActorFailed):
            raise event.error

    def _start(self, actors: Sequence[Actor], manager: LocalBarrierManager) -> None:
        def run(actor: Actor) -> None:
            try:
                actor.run(manager)
            except GraphReset:
                return
            except BaseException as error:
                manager.notify_failure(actor.actor, error)

        self._threads = [
            threading.Thread(target=run, args=(a,), name=f"{self.graph} {a.actor}", daemon=True)
            for a in actors
        ]
        for thread in self._threads:
            thread.start()
