"""Which barriers of a graph are under way, and which are complete: a pure step machine.

                 inject                 last actor collects, and all earlier ones are complete
    (nothing) ──────────▶ Issued{remaining} ──────────────────────▶ complete, in epoch order

Barriers chain: each one's `prev` is the `curr` of the one before. The first is Initial. An actor
that an Add brings takes part from that barrier on, one that a Stop names up to that barrier; after
a Stop of all nothing follows. When a barrier is complete, the reports of its actors are drawn into
it, and a checkpoint covers all Barriers since the last one.

Pure.
"""

from dataclasses import dataclass, field

from ops.barrier_manager.events import Report, subject_of
from ops.common.barrier import Add, Barrier, BarrierKind, Stop, Update
from ops.common.epoch import Epoch
from ops.common.errors import BarrierOutOfOrder, DuplicateCollect, UnknownActor


@dataclass
class Issued:
    barrier: Barrier
    remaining: set[str]
    outputs: dict[str, object] = field(default_factory=dict)
    reports: dict[tuple[str, str], Report] = field(default_factory=dict)
    """The last one about each subject."""
    covers: tuple[Epoch, ...] = ()
    """Once complete, for a checkpoint: the epochs it commits, its own the last."""


@dataclass
class ManagedBarrierState:
    """`actors` are those who take part in the next barrier."""

    graph: str
    actors: frozenset[str]
    last: Barrier | None = None
    issued: list[Issued] = field(default_factory=list)
    uncheckpointed: tuple[Epoch, ...] = ()
    """Epochs closed by complete Barriers since the last complete checkpoint."""

    def inject(self, barrier: Barrier) -> None:
        if self.last is None:
            if barrier.kind is not BarrierKind.INITIAL:
                raise BarrierOutOfOrder(f"{self.graph} begins with {barrier.kind}, not Initial")
        elif barrier.kind is BarrierKind.INITIAL:
            raise BarrierOutOfOrder(f"{self.graph} got a second Initial barrier")
        elif self.last.stops:
            raise BarrierOutOfOrder(f"{self.graph} got a barrier after all its actors were stopped")
        elif barrier.epoch.prev != self.last.epoch.curr:
            raise BarrierOutOfOrder(
                f"{self.graph}: barrier closes {barrier.epoch.prev}, open is {self.last.epoch.curr}"
            )
        if barrier.epoch.curr <= barrier.epoch.prev:
            raise BarrierOutOfOrder(f"{self.graph}: barrier opens no later epoch: {barrier.epoch}")
        self._require_known(barrier)
        taking_part = self.actors
        match barrier.mutation:
            case Add(actors=added):
                taking_part = self.actors = self.actors | set(added)
            case Stop(actors):
                self.actors = self.actors - (self.actors if actors is None else set(actors))
            case _:
                pass
        self.last = barrier
        self.issued.append(Issued(barrier, set(taking_part)))

    def report(self, report: Report) -> bool:
        """Keep a report until its barrier is complete; one that came too late is dropped."""
        mine = self._issued(report.barrier)
        if mine is None or report.actor not in mine.remaining:
            return False
        mine.reports[subject_of(report)] = report
        return True

    def collect(self, actor: str, barrier: Barrier, output: object) -> list[Issued]:
        """Take an actor's collection and return the barriers it completes, in order."""
        mine = next((i for i in self.issued if actor in i.remaining), None)
        if mine is None and actor not in self.actors:
            raise UnknownActor(actor, self.graph)
        if mine is None or mine.barrier.epoch != barrier.epoch:
            self._refuse(actor, barrier, mine)
        assert mine is not None
        mine.remaining.remove(actor)
        mine.outputs[actor] = output
        done = []
        while self.issued and not self.issued[0].remaining:
            done.append(self._complete(self.issued.pop(0)))
        return done

    def _complete(self, issued: Issued) -> Issued:
        kind, prev = issued.barrier.kind, issued.barrier.epoch.prev
        if kind is BarrierKind.BARRIER:
            self.uncheckpointed = (*self.uncheckpointed, prev)
        elif kind.is_checkpoint:
            issued.covers, self.uncheckpointed = (*self.uncheckpointed, prev), ()
        return issued

    def _issued(self, barrier: Barrier) -> Issued | None:
        return next((i for i in self.issued if i.barrier.epoch == barrier.epoch), None)

    def _require_known(self, barrier: Barrier) -> None:
        match barrier.mutation:
            case Stop(actors):
                named = actors or ()
            case Update(vnodes):
                named = tuple(actor for actor, _ in vnodes)
            case _:
                return
        for actor in named:
            if actor not in self.actors:
                raise UnknownActor(actor, self.graph)

    def _refuse(self, actor: str, barrier: Barrier, mine: Issued | None) -> None:
        found = self._issued(barrier)
        passed = self.last is not None and barrier.epoch.prev <= self.last.epoch.prev
        if (found is None and passed) or (found is not None and actor not in found.remaining):
            raise DuplicateCollect(actor, self.graph, barrier.epoch.prev)
        expected = mine.barrier.epoch if mine else "nothing"
        raise BarrierOutOfOrder(
            f"{self.graph}: {actor} collected {barrier.epoch}, expected {expected}"
        )
