"""The handle through which the actors of one graph meet its barriers.

    worker --send--> each subscriber's queue --> actor --collect | notify_failure--> worker

A late subscriber is first served the barriers that are still pending. Failures overtake
collections, so that a graph never commits after one of its actors has failed.

Pure.
"""

import queue
import threading

from ops.barrier_manager.events import ActorCollected, ActorFailed, Event
from ops.common.barrier import Barrier
from ops.common.errors import UnknownActor


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
    """`actors` are those the graph waits for; nobody else may collect."""

    def __init__(self, graph: str, actors: tuple[str, ...]) -> None:
        self.graph = graph
        self.actors = actors
        self._lock = threading.Lock()
        self._receivers: dict[str, BarrierReceiver] = {}
        self._pending: list[Barrier] = []
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._failure: ActorFailed | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Tell every actor to end; whatever it was doing is not committed."""
        self._closed.set()

    def require_open(self) -> None:
        if self._closed.is_set():
            raise GraphReset(self.graph)

    def subscribe_barrier(self, actor: str) -> BarrierReceiver:
        self._require(actor)
        with self._lock:
            receiver = BarrierReceiver()
            for barrier in self._pending:
                receiver.put(barrier)
            self._receivers[actor] = receiver
            return receiver

    def collect(self, actor: str, barrier: Barrier, output: object = None) -> None:
        self._require(actor)
        self._events.put(ActorCollected(actor, barrier, output))

    def notify_failure(self, actor: str, error: BaseException) -> None:
        self._require(actor)
        failure = ActorFailed(actor, error)
        with self._lock:
            # The first is the cause; what the others say is usually that it has gone.
            self._failure = self._failure or failure
        self._events.put(failure)

    def send(self, barrier: Barrier) -> None:
        with self._lock:
            self._pending.append(barrier)
            for receiver in self._receivers.values():
                receiver.put(barrier)

    def completed(self, barrier: Barrier) -> None:
        """Forget a barrier that every actor has collected."""
        with self._lock:
            self._pending.remove(barrier)

    def next_event(self, timeout: float) -> Event | None:
        with self._lock:
            if self._failure is not None:
                return self._failure
        try:
            return self._events.get(timeout=timeout)
        except queue.Empty:
            return None

    def _require(self, actor: str) -> None:
        if actor not in self.actors:
            raise UnknownActor(actor, self.graph)
