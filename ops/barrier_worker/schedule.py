"""When the next barrier of a graph is due, and of what kind.

    a command waits                          SyncCheckpoint now
    one is under way                         none: at most one timer barrier is pending
    paused                                   none: nothing can be waiting
    no grant, gathered since a checkpoint    Checkpoint now, to come to rest
    no grant                                 none: the pipeline rests at a checkpoint
    the sources can hold no more             Checkpoint now
    work waits and the interval is over      Checkpoint if one must be carried, or if it is the
                                             `checkpoint_frequency`-th since the last; else Barrier
    nothing happened for `idle_s`            Checkpoint, to move the source's confirmed position

A timer that comes late delays the next; nothing is caught up in a burst. The interval is stronger
than `idle_s`: who asked for one barrier an hour gets no more.

Pure.
"""

from dataclasses import dataclass

from ops.common.barrier import BarrierKind


@dataclass(frozen=True, slots=True)
class Look:
    """What a graph finds between two barriers."""

    since_last_s: float
    """Seconds since the last barrier was made."""
    granted: bool
    work: bool
    """Something waits that a checkpoint would commit."""
    commands: bool = False
    must_checkpoint: bool = False
    """The next barrier carries what only a checkpoint can."""
    full: bool = False
    paused: bool = False
    pending: int = 0
    uncheckpointed: int = 0
    """Barriers since the last checkpoint."""


@dataclass(frozen=True, slots=True)
class Schedule:
    interval_s: float
    idle_s: float
    checkpoint_frequency: int = 1

    def due(self, look: Look) -> BarrierKind | None:
        if look.commands:
            return BarrierKind.SYNC_CHECKPOINT
        if look.pending or look.paused:
            return None
        if not look.granted:
            return BarrierKind.CHECKPOINT if look.uncheckpointed else None
        if look.full:
            return BarrierKind.CHECKPOINT
        if look.work and look.since_last_s >= self.interval_s:
            nth = look.uncheckpointed + 1 >= self.checkpoint_frequency
            return BarrierKind.CHECKPOINT if nth or look.must_checkpoint else BarrierKind.BARRIER
        if look.since_last_s >= max(self.idle_s, self.interval_s):
            return BarrierKind.CHECKPOINT
        return None
