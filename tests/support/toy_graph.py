"""A main graph without Spark or a source: its source is a list, its view adds the numbers up.

What is committed is judged from the store alone: the rows of `epochs` say how many numbers each
epoch took, so that one lost or taken twice shows.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ops.backfill.failpoints import no_failpoint
from ops.barrier_manager.manager import LocalBarrierManager
from ops.barrier_worker.commit import EpochCommit, commit_epoch
from ops.barrier_worker.lease import LeaseKeeper, Term, acquire
from ops.barrier_worker.worker import Actor, BarrierWorker, Completed
from ops.common.barrier import Barrier, BarrierKind, Pause
from ops.common.controls import Controls, apply
from ops.common.ports import Clock, Statements
from resources.clock import ManualClock
from resources.control_store import ControlStore
from tests.support.control import Place

STEP_SECONDS = 0.002


class ToySource:
    """Takes numbers from `offered` up to what is committed; polls unless it is paused."""

    def __init__(self, offered: list[int], start: int) -> None:
        self.actor = "source/toy"
        self.offered, self.taken = offered, start
        self.gathered = 0
        self.controls = Controls()
        self.fail: BaseException | None = None
        self.seen: list[Barrier] = []

    def run(self, manager: LocalBarrierManager) -> None:
        barriers = manager.subscribe_barrier(self.actor)
        while True:
            manager.require_open()
            if self.fail is not None:
                error, self.fail = self.fail, None
                raise error
            barrier = barriers.take(STEP_SECONDS)
            if barrier is None:
                if self.seen and not self.controls.paused:
                    self.gathered = len(self.offered) - self.taken
                continue
            self.seen.append(barrier)
            output = None
            if barrier.kind.is_checkpoint:
                sync = barrier.kind is BarrierKind.SYNC_CHECKPOINT
                if sync and not self.controls.paused and not isinstance(barrier.mutation, Pause):
                    self.gathered = len(self.offered) - self.taken
                output, self.gathered = self.gathered, 0
                self.taken += output
            if barrier.mutation is not None:
                self.controls = apply(self.controls, barrier.mutation)
            manager.report_source_offset(
                self.actor, barrier, "toy", rows=self.gathered, lsn=self.taken
            )
            manager.collect(self.actor, barrier, output)
            if barrier.stops_actor(self.actor):
                return


class ToyView:
    """Collects; a delay or an error may be put into its way."""

    def __init__(self, name: str) -> None:
        self.actor = f"view/{name}"
        self.fail: BaseException | None = None
        self.ends_with: BaseException | None = None
        """Raised when the graph is torn down, as an echo of another's failure."""

    def run(self, manager: LocalBarrierManager) -> None:
        barriers = manager.subscribe_barrier(self.actor)
        while True:
            try:
                manager.require_open()
            except Exception:
                if self.ends_with is not None:
                    raise self.ends_with from None
                raise
            barrier = barriers.take(STEP_SECONDS)
            if self.fail is not None:
                raise self.fail
            if barrier is None:
                continue
            manager.collect(self.actor, barrier)
            if barrier.stops_actor(self.actor):
                return


@dataclass
class ToyGraph:
    place: Place
    source: ToySource
    views: list[ToyView]
    full: bool = False
    completed: list[Completed] = field(default_factory=list)
    taken_in: list[tuple[str, ...]] = field(default_factory=list)
    before_commit: Callable[[], None] = lambda: None

    def actors(self) -> Sequence[Actor]:
        return [self.source, *self.views]

    def has_work(self) -> bool:
        return self.source.gathered > 0

    def is_full(self) -> bool:
        return self.full and self.source.gathered > 0

    def take_in(self, views: tuple[str, ...]) -> None:
        self.taken_in.append(views)

    def commit(self, completed: Completed) -> None:
        self.before_commit()
        barrier = completed.barrier
        assert barrier.attempt is not None
        count = completed.outputs[self.source.actor]
        assert isinstance(count, int)

        def also(tx: Statements) -> None:
            for command in completed.commands:
                tx.execute("set_command_done", command=command, epoch=barrier.epoch.prev)

        commit_epoch(
            self.place.store,
            EpochCommit(
                self.place.main,
                completed.term,
                completed.committed,
                barrier.epoch.prev,
                (barrier.attempt.id,),
                (),
                {"toy": {"count": count, "end": self.source.taken}},
            ),
            failpoint=no_failpoint,
            name="tick",
            also=also,
        )

    def after_commit(self, completed: Completed) -> None:
        self.completed.append(completed)

    def finish(self) -> None:
        pass


@dataclass
class Run:
    """A worker in a thread of its own; `result` is what it returned or raised."""

    worker: BarrierWorker
    graph: ToyGraph
    over: threading.Event
    thread: threading.Thread
    result: list[object]

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert not self.result, self.result
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.002)

    def ended(self, seconds: float = 10.0) -> object:
        self.thread.join(seconds)
        assert self.result, "it goes on"
        return self.result[0]


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def acquired_again(place: Place, term: Term) -> Term:
    """Return the same term with the epoch that is committed now, as a recovery finds it."""
    return replace(term, committed=place.committed())


def offered_so_far(place: Place) -> int:
    """Return how many numbers the committed epochs took."""
    return sum(row["offsets"]["toy"]["count"] for row in epochs(place))


def epochs(place: Place) -> list[dict[str, Any]]:
    found = place.store._connection().execute(
        "SELECT epoch, prev, term, offsets FROM epochs WHERE graph = %s ORDER BY epoch",
        (place.main,),
    )
    return found.fetchall()


def barriers(place: Place) -> list[dict[str, Any]]:
    found = place.store._connection().execute(
        "SELECT prev, curr, term, kind, mutation, waiting_rows FROM barriers "
        "WHERE graph = %s ORDER BY id",
        (place.main,),
    )
    return found.fetchall()


def require_sound(place: Place) -> None:
    """Judge by the store's rows: chains unbroken, ordered, monotone, one owner at a time."""
    made = barriers(place)
    last: dict[str, Any] | None = None
    for barrier in made:
        assert barrier["curr"] > barrier["prev"], barrier
        if last is not None:
            assert barrier["term"] >= last["term"], (last, barrier)
        if barrier["kind"] == "Initial":
            last = barrier
            continue
        assert last is not None and barrier["term"] == last["term"], (last, barrier)
        assert barrier["prev"] == last["curr"], (last, barrier)
        last = barrier
    checkpoints = {
        (b["term"], b["prev"]) for b in made if b["kind"] in ("Checkpoint", "SyncCheckpoint")
    }
    before, term, end = 0, 0, 0
    for epoch in epochs(place):
        assert epoch["prev"] == before and epoch["epoch"] > before, epoch
        assert epoch["term"] >= term, epoch
        assert (epoch["term"], epoch["epoch"]) in checkpoints, epoch
        took = epoch["offsets"]["toy"]
        assert took["end"] == end + took["count"], "each number once"
        before, term, end = epoch["epoch"], epoch["term"], took["end"]
    assert place.committed() == before


def make_worker(
    place: Place, keeper: LeaseKeeper, clock: Clock, *, idle_s: float = 1e6
) -> BarrierWorker:
    return BarrierWorker(
        place.pipeline, place.main, place.store, clock, no_failpoint, keeper, idle_s
    )


@contextmanager
def running(
    place: Place,
    offered: list[int],
    *,
    clock: Clock | None = None,
    views: int = 1,
    owner: str = "me",
    idle_s: float = 1e6,
    store: ControlStore | None = None,
) -> Iterator[Run]:
    """A worker that runs; left, it has been asked to end at a checkpoint and has ended."""
    at = Place(store or place.store, place.pipeline)
    term = acquire(at.store, at.main, owner=owner, seconds=30)
    with LeaseKeeper(at.store, term, seconds=30) as keeper:
        worker = make_worker(at, keeper, clock or ManualClock(), idle_s=idle_s)
        source = ToySource(offered, offered_so_far(place))
        graph = ToyGraph(at, source, [ToyView(str(n)) for n in range(views)])
        over, result = threading.Event(), list[object]()

        def run() -> None:
            try:
                result.append(worker.run(graph, until=over.is_set))
            except BaseException as error:
                result.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        made = Run(worker, graph, over, thread, result)
        try:
            yield made
        finally:
            over.set()
            thread.join(10)
            assert not thread.is_alive()
