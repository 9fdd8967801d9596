"""What the actors of a main graph add to the commit of an epoch.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
class ChangedSchema:
    """What the columns of a relation are from the next epoch on, as the store keeps them."""

    relation: int
    version: int
    schema: Mapping[str, Any]
    origin: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TakenRepair:
    """So many rows of a repair are in this epoch; None where it no longer fits its table."""

    repair: int
    relation: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class SourceOutput:
    """`end_lsn` is None where the stream has not moved; `stopped` maps relations to reasons.

    `truncated` maps the relations that were truncated to the graphs of their backfills, `filled`
    those of whose rows some were read from the source to where the stream stood then. `relations`
    are those that the source has now. Those in `changed` have other columns after this epoch.
    `flushed` is false where a flush could not be seen.
    """

    source: str
    files: tuple[StagedFile, ...]
    end_lsn: int | None
    watermarks: tuple[PassedWatermark, ...]
    stopped: Mapping[int, str]
    rows: int
    commit_ts_micros: int | None
    truncated: Mapping[int, str] = field(default_factory=dict)
    filled: Mapping[int, int] = field(default_factory=dict)
    relations: tuple[int, ...] = ()
    changed: tuple[ChangedSchema, ...] = ()
    flushed: bool = True
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
