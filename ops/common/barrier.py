"""Barriers: what closes an epoch and opens the next.

    kind            first after start   writes files   the caller waits for the commit
    Initial         yes                 no             -
    Barrier         no                  no             -
    Checkpoint      no                  yes            no
    SyncCheckpoint  no                  yes            yes (flush, pause, stop)

At a Barrier sources have polled and gathered, and progress is reported; the next checkpoint takes
in all that the barriers before it closed. Only a Barrier may come without an attempt.

    mutation   after this barrier
    Add        these views are in step, these actors take part
    Stop       these actors (all, where none is named) have ended
    Update     these actors work on these vnodes
    Pause      sources poll no more, backfills read no page
    Resume     they do again
    Throttle   a table's backfill reads at most that many rows a second, with so many readers

Pure.
"""

from dataclasses import dataclass
from enum import StrEnum

from ops.common.epoch import EpochPair


class BarrierKind(StrEnum):
    INITIAL = "Initial"
    BARRIER = "Barrier"
    CHECKPOINT = "Checkpoint"
    SYNC_CHECKPOINT = "SyncCheckpoint"

    @property
    def is_checkpoint(self) -> bool:
        return self in (BarrierKind.CHECKPOINT, BarrierKind.SYNC_CHECKPOINT)


@dataclass(frozen=True, slots=True)
class Add:
    """These views are taken into the graph with this barrier: they rejoin. `actors` are new."""

    views: tuple[str, ...]
    actors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """After this barrier these actors end; None means all of them, and no barrier follows."""

    actors: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """After this barrier each actor named works on these vnodes and no others."""

    vnodes: tuple[tuple[str, frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """After this barrier nothing more is read from the sources."""


@dataclass(frozen=True, slots=True)
class Resume:
    """After this barrier the sources are read again."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """How fast a table's backfill may read; None is no limit, and as many readers as defined."""

    table: str
    rows_per_s: int | None
    parallelism: int | None = None


Mutation = Add | Stop | Update | Pause | Resume | Throttle


@dataclass(frozen=True, slots=True)
class Attempt:
    """Where the files of one try at one epoch go; registered before the first is written."""

    id: int
    directory: str


@dataclass(frozen=True, slots=True)
class Barrier:
    epoch: EpochPair
    kind: BarrierKind
    mutation: Mutation | None = None
    attempt: Attempt | None = None
    """None for Initial and Barrier, which write nothing."""

    @property
    def rejoining(self) -> tuple[str, ...]:
        return self.mutation.views if isinstance(self.mutation, Add) else ()

    @property
    def stops(self) -> bool:
        """Say whether every actor ends with this barrier."""
        return isinstance(self.mutation, Stop) and self.mutation.actors is None

    def stops_actor(self, actor: str) -> bool:
        match self.mutation:
            case Stop(actors):
                return actors is None or actor in actors
            case _:
                return False
