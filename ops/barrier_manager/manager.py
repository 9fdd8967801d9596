"""The handle through which the actors of one graph meet its barriers.

    worker --send--> each subscriber's queue --> actor --report*, collect | notify_failure--> worker

A late subscriber is first served the barriers that are still pending; one that has collected
already must not subscribe again. Failures overtake everything else, so that a graph never commits
after one of its actors has failed. Once closed, the handle is stale: nobody hears what it is told,
but failures are still kept, for the choice of the cause.

Pure.
"""

import queue
import threading

from ops.barrier_manager.cdc_progress import CdcProgress
from ops.barrier_manager.events import (
    ActorCollected,
    ActorFailed,
    CdcSourceOffsetUpdated,
    CdcTableBackfillProgress,
    CreateProgress,
    Event,
)
from ops.barrier_manager.progress import BackfillState
from ops.common.barrier import Add, Barrier, Stop
from ops.common.epoch import Epoch
from ops.common.errors import BarrierOutOfOrder, UnknownActor


class GraphReset(Exception):
    """The graph is being torn down; an actor that sees this ends without a word."""


class BarrierReceiver:
    """The barriers of one actor, in order."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Barrier] = queue.SimpleQueue()

    def put(self, barrier: Barrier) -> None:
        self._queue.put(barrier)

    def take(self, timeout: float) -> Barrier | None:
        """Return the next barrier, or None when none came within `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout) if timeout else self._queue.get_nowait()
        except queue.Empty:
            return None


class LocalBarrierManager:
    """`actors` are those the graph waits for; nobody else may speak. An Add brings new ones."""

    def __init__(self, graph: str, actors: tuple[str, ...]) -> None:
        self.graph = graph
        self.actors = actors
        self._lock = threading.Lock()
        self._receivers: dict[str, BarrierReceiver] = {}
        self._running: set[str] = set()
        """Actors that have collected a barrier."""
        self._life: dict[str, tuple[Epoch | None, Epoch | None]] = {}
        """From which to which barrier, by `prev` and both included, an actor takes part."""
        self._pending: list[Barrier] = []
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._failures: list[ActorFailed] = []
        self._closed = threading.Event()

    @property
    def failures(self) -> tuple[ActorFailed, ...]:
        """What the actors have failed with so far, in the order of their saying so."""
        with self._lock:
            return tuple(self._failures)

    def close(self) -> None:
        """Tell every actor to end; whatever it was doing is not committed."""
        self._closed.set()

    def require_open(self) -> None:
        if self._closed.is_set():
            raise GraphReset(self.graph)

    def subscribe_barrier(self, actor: str) -> BarrierReceiver:
        self._require(actor)
        with self._lock:
            if actor in self._running:
                raise BarrierOutOfOrder(
                    f"{self.graph}: {actor} subscribes again after it has collected"
                )
            receiver = BarrierReceiver()
            for barrier in self._pending:
                if self._takes_part(actor, barrier):
                    receiver.put(barrier)
            self._receivers[actor] = receiver
            return receiver

    def collect(self, actor: str, barrier: Barrier, output: object = None) -> None:
        self._require(actor)
        with self._lock:
            self._running.add(actor)
        self._events.put(ActorCollected(actor, barrier, output))

    def report_create_progress(
        self, actor: str, barrier: Barrier, view: str, state: BackfillState
    ) -> None:
        self._require(actor)
        self._events.put(CreateProgress(actor, barrier, view, state))

    def report_cdc_progress(
        self, actor: str, barrier: Barrier, table: str, progress: CdcProgress
    ) -> None:
        self._require(actor)
        self._events.put(CdcTableBackfillProgress(actor, barrier, table, progress))

    def report_source_offset(
        self, actor: str, barrier: Barrier, source: str, *, rows: int, lsn: int | None
    ) -> None:
        self._require(actor)
        self._events.put(CdcSourceOffsetUpdated(actor, barrier, source, rows, lsn))

    def notify_failure(self, actor: str, error: BaseException) -> None:
        self._require(actor)
        failure = ActorFailed(actor, error)
        with self._lock:
            self._failures.append(failure)
        self._events.put(failure)

    def send(self, barrier: Barrier) -> None:
        with self._lock:
            match barrier.mutation:
                case Add(actors=added):
                    self.actors = tuple(dict.fromkeys((*self.actors, *added)))
                    for actor in added:
                        # One that was here before is new again.
                        self._receivers.pop(actor, None)
                        self._running.discard(actor)
                        self._life[actor] = (barrier.epoch.prev, None)
                case Stop(actors):
                    for actor in self.actors if actors is None else actors:
                        first, _ = self._life.get(actor, (None, None))
                        self._life[actor] = (first, barrier.epoch.prev)
                case _:
                    pass
            self._pending.append(barrier)
            for actor, receiver in self._receivers.items():
                if self._takes_part(actor, barrier):
                    receiver.put(barrier)

    def completed(self, barrier: Barrier) -> None:
        """Forget a barrier that every actor has collected."""
        with self._lock:
            self._pending.remove(barrier)

    def next_event(self, timeout: float) -> Event | None:
        with self._lock:
            if self._failures:
                return self._failures[0]
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def _takes_part(self, actor: str, barrier: Barrier) -> bool:
        first, last = self._life.get(actor, (None, None))
        prev = barrier.epoch.prev
        return (first is None or first <= prev) and (last is None or prev <= last)

    def _require(self, actor: str) -> None:
        if actor not in self.actors:
            raise UnknownActor(actor, self.graph)
