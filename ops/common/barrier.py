"""Barriers: what closes an epoch and opens the next.

    kind            first after start   writes files   the caller waits for the commit
    Initial         yes                 no             -
    Checkpoint      no                  yes            no
    SyncCheckpoint  no                  yes            yes (flush, stop)

Pure.
"""

from dataclasses import dataclass
from enum import StrEnum

from ops.common.epoch import EpochPair


class BarrierKind(StrEnum):
    INITIAL = "Initial"
    CHECKPOINT = "Checkpoint"
    SYNC_CHECKPOINT = "SyncCheckpoint"


@dataclass(frozen=True, slots=True)
class Add:
    """These views are taken into the graph with this barrier: they rejoin."""

    views: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """After this barrier every actor ends."""


Mutation = Add | Stop


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
    """None for Initial, which writes nothing."""

    @property
    def rejoining(self) -> tuple[str, ...]:
        return self.mutation.views if isinstance(self.mutation, Add) else ()

    @property
    def stops(self) -> bool:
        return isinstance(self.mutation, Stop)
