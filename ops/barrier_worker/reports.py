"""What the actors of a main graph add to the commit of an epoch.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.table.relation import StagedFile


@dataclass(frozen=True, slots=True)
class PassedWatermark:
    """A backfill graph's message came through the stream: all it had read by `epoch` is passed.

    Ordered by (term, epoch): epochs of two owners follow two clocks, and a late message of one
    that was taken over says nothing about what its successor has read.
    """

    graph: str
    generation: int
    term: int
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class TakenRepair:
    """So many rows of a repair are in this epoch; None where it no longer fits its table."""

    repair: int
    relation: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class SourceOutput:
    """`end_lsn` is None where the stream has not moved; `stopped` maps relations to reasons."""

    source: str
    files: tuple[StagedFile, ...]
    end_lsn: int | None
    watermarks: tuple[PassedWatermark, ...]
    stopped: Mapping[int, str]
    rows: int
    commit_ts_micros: int | None
    repairs: tuple[TakenRepair, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewOutput:
    """The view moves from `after` to the epoch; `failed` takes it out of step instead.

    `attempt` is what its files were written as; None where there was nothing to write.
    """

    view: str
    after: Epoch
    attempt: Attempt | None = None
    files: tuple[StagedFile, ...] = ()
    failed: BaseException | None = None
