"""What a user may change while a graph runs, and the mutations that bring a graph there.

The store holds what is wanted, a graph what it has applied; the difference is what its next
barrier carries. A pause that was taken back before anybody looked is no mutation at all, and a
graph that starts while it is wanted paused starts paused.

Pure.
"""

from dataclasses import dataclass, replace

from ops.common.barrier import Mutation, Pause, Resume, Throttle


@dataclass(frozen=True, slots=True)
class Controls:
    """`rows_per_s` and `parallelism` are of a table's backfill; None: what its definition says."""

    paused: bool = False
    rows_per_s: int | None = None
    parallelism: int | None = None

    @property
    def speed(self) -> tuple[int | None, int | None]:
        return self.rows_per_s, self.parallelism


def mutations(applied: Controls, wanted: Controls, *, table: str = "") -> list[Mutation]:
    """Return what leads from `applied` to `wanted`, in the order in which it must be carried."""
    found: list[Mutation] = []
    if applied.speed != wanted.speed:
        found.append(Throttle(table, wanted.rows_per_s, wanted.parallelism))
    if applied.paused != wanted.paused:
        found.append(Pause() if wanted.paused else Resume())
    return found


def apply(controls: Controls, mutation: Mutation) -> Controls:
    """Return the controls after a barrier with that mutation; others than these change nothing."""
    match mutation:
        case Pause():
            return replace(controls, paused=True)
        case Resume():
            return replace(controls, paused=False)
        case Throttle(_, rows_per_s, parallelism):
            return Controls(controls.paused, rows_per_s, parallelism)
        case _:
            return controls
