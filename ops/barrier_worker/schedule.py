"""When the next barrier of a graph is due, and of what kind.

    a command waits                      -> SyncCheckpoint now
    no grant                             -> none: the pipeline comes to rest at a checkpoint
    work waits and the interval is over  -> Checkpoint
    nothing happened for `idle_s`        -> Checkpoint, to move the source's confirmed position

Pure.
"""

from dataclasses import dataclass

from ops.common.barrier import BarrierKind


@dataclass(frozen=True, slots=True)
class Schedule:
    interval_s: float
    idle_s: float

    def due(
        self, *, since_last_s: float, granted: bool, work: bool, commands: bool
    ) -> BarrierKind | None:
        if commands:
            return BarrierKind.SYNC_CHECKPOINT
        if not granted:
            return None
        if work and since_last_s >= self.interval_s:
            return BarrierKind.CHECKPOINT
        if since_last_s >= self.idle_s:
            return BarrierKind.CHECKPOINT
        return None
