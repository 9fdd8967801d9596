"""What a user may change while a graph runs, and the mutations that bring a graph there.

The store holds what is wanted, a graph what it has applied; the difference is what its next
barrier carries. A pause that was taken back before anybody looked is no mutation at all, and a
graph that starts while it is wanted paused starts paused.

Pure.
"""

from dataclasses import dataclass

from ops.common.barrier import Mutation, Pause, Resume, Throttle


@dataclass(frozen=True, slots=True)
class Controls:
    """`rows_per_s` is the limit of a table's backfill; None is none."""

    paused: bool = False
    rows_per_s: int | None = None


def mutations(applied: Controls, wanted: Controls, *, table: str = "") -> list[Mutation]:
    """Return what leads from `applied` to `wanted`, in the order in which it must be carried."""
    found: list[Mutation] = []
    if applied.rows_per_s != wanted.rows_per_s:
        found.append(Throttle(table, wanted.rows_per_s))
    if applied.paused != wanted.paused:
        found.append(Pause() if wanted.paused else Resume())
    return found


def apply(controls: Controls, mutation: Mutation) -> Controls:
    """Return the controls after a barrier with that mutation; others than these change nothing."""
    match mutation:
        case Pause():
            return Controls(True, controls.rows_per_s)
        case Resume():
            return Controls(False, controls.rows_per_s)
        case Throttle(_, rows_per_s):
            return Controls(controls.paused, rows_per_s)
        case _:
            return controls
