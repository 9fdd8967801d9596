"""The life of a view until it is in step with its tables.

    WaitingForUpstream ──the table is live──▶ ConsumingSnapshot(E) ──every vnode read──▶
    ConsumingLogStore ──what is left is small──▶ Finishing ──the main graph takes it in──▶ Done
            ▲                                                                               │
            └──────────────────────────── it failed in a checkpoint ◀───────────────────────┘

While the snapshot is read, the view's own epochs are tiny numbers, all before E; the wave that
finishes the last vnode commits E itself. A version that is built beside the current one and cannot
be is Stopped; another definition, or `tidegate backfill --anew`, begins the next.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ops.common.epoch import SHIFT, Epoch


class Phase(StrEnum):
    WAITING = "WaitingForUpstream"
    SNAPSHOT = "ConsumingSnapshot"
    LOG = "ConsumingLogStore"
    FINISHING = "Finishing"
    DONE = "Done"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True)
class VnodeBackfillProgress:
    """| vnode | epoch | row_count | is_finished |, committed with the rows it counts."""

    vnode: int
    epoch: Epoch
    row_count: int
    is_finished: bool


def wave_epoch(committed: Epoch) -> Epoch:
    """Return the label of the next wave: 1, 2, 3 … ms after the origin, before any real epoch."""
    return Epoch(((committed >> SHIFT) + 1) << SHIFT)


def next_waves(
    vnodes: Sequence[int],
    progress: Mapping[int, VnodeBackfillProgress],
    *,
    rows: int,
    vnode_count: int,
    rows_per_wave: int,
) -> list[tuple[int, ...]]:
    """Return the vnodes still to be read, in waves of about `rows_per_wave` rows each."""
    todo = [v for v in sorted(set(vnodes)) if v not in progress or not progress[v].is_finished]
    per_vnode = max(1, rows // vnode_count)
    size = max(1, rows_per_wave // per_vnode)
    return [tuple(todo[i : i + size]) for i in range(0, len(todo), size)]
