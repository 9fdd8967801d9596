"""What actors report to their graph.

A report about a barrier must be sent before the actor collects that barrier: the coordinator
draws them together when the last actor has collected. A report that comes too late is dropped.

Pure.
"""

from dataclasses import dataclass

from ops.barrier_manager.cdc_progress import CdcProgress
from ops.barrier_manager.progress import BackfillState
from ops.common.barrier import Barrier


@dataclass(frozen=True, slots=True)
class ActorCollected:
    """All that belongs before the barrier is done; `output` goes into its commit."""

    actor: str
    barrier: Barrier
    output: object


@dataclass(frozen=True, slots=True)
class CreateProgress:
    """How far a view under construction is."""

    actor: str
    barrier: Barrier
    view: str
    state: BackfillState


@dataclass(frozen=True, slots=True)
class CdcTableBackfillProgress:
    """How far a table under backfill is."""

    actor: str
    barrier: Barrier
    table: str
    progress: CdcProgress


@dataclass(frozen=True, slots=True)
class CdcSourceOffsetUpdated:
    """Where a source stands: `rows` whole rows wait for a checkpoint, up to position `lsn`."""

    actor: str
    barrier: Barrier
    source: str
    rows: int
    lsn: int | None


@dataclass(frozen=True, slots=True)
class ActorFailed:
    actor: str
    error: BaseException


Report = CreateProgress | CdcTableBackfillProgress | CdcSourceOffsetUpdated
"""At most one per actor, subject and barrier counts: the last."""

Event = ActorCollected | Report | ActorFailed


def subject_of(report: Report) -> tuple[str, str]:
    """Return what a report is about; a later one about the same replaces it."""
    match report:
        case CreateProgress(view=view):
            return "view", view
        case CdcTableBackfillProgress(table=table):
            return "table", table
        case CdcSourceOffsetUpdated(source=source):
            return "source", source
