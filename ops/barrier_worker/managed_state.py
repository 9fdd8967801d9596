"""Which barriers of a graph are under way, and which are complete: a pure step machine.

                 inject                 last actor collects, and all earlier ones are complete
    (nothing) ──────────▶ Issued{remaining} ──────────────────────▶ complete, in epoch order

Barriers chain: each one's `prev` is the `curr` of the one before. The first is Initial.

Pure.
"""

from dataclasses import dataclass, field

from ops.common.barrier import Barrier, BarrierKind
from ops.common.errors import BarrierOutOfOrder, UnknownActor


@dataclass
class Issued:
    barrier: Barrier
    remaining: set[str]
    outputs: dict[str, object] = field(default_factory=dict)


@dataclass
class ManagedBarrierState:
    graph: str
    actors: frozenset[str]
    last: Barrier | None = None
    issued: list[Issued] = field(default_factory=list)

    def inject(self, barrier: Barrier) -> None:
        if self.last is None:
            if barrier.kind is not BarrierKind.INITIAL:
                raise BarrierOutOfOrder(f"{self.graph} begins with {barrier.kind}, not Initial")
        elif barrier.kind is BarrierKind.INITIAL:
            raise BarrierOutOfOrder(f"{self.graph} got a second Initial barrier")
        elif barrier.epoch.prev != self.last.epoch.curr:
            raise BarrierOutOfOrder(
                f"{self.graph}: barrier closes {barrier.epoch.prev}, open is {self.last.epoch.curr}"
            )
        self.last = barrier
        self.issued.append(Issued(barrier, set(self.actors)))

    def collect(self, actor: str, barrier: Barrier, output: object) -> list[Issued]:
        """Take an actor's collection and return the barriers it completes, in order."""
        if actor not in self.actors:
            raise UnknownActor(actor, self.graph)
        mine = next((i for i in self.issued if actor in i.remaining), None)
        if mine is None or mine.barrier.epoch != barrier.epoch:
            expected = mine.barrier.epoch if mine else "nothing"
            raise BarrierOutOfOrder(
                f"{self.graph}: {actor} collected {barrier.epoch}, expected {expected}"
            )
        mine.remaining.remove(actor)
        mine.outputs[actor] = output
        done = []
        while self.issued and not self.issued[0].remaining:
            done.append(self.issued.pop(0))
        return done
