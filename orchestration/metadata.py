"""What Dagster shows beside an asset: a window on the control store, never the store."""

from collections.abc import Mapping
from typing import Protocol

import dagster as dg

from ops.backfill.progress import PipelineProgress, RelationProgress
from ops.common.epoch import Epoch, show

Metadata = Mapping[str, dg.MetadataValue]


class VnodeDone(Protocol):
    @property
    def vnode(self) -> int: ...
    @property
    def rows(self) -> int: ...


VERSION = "version"
"""On the materialization of a vnode: of which version of its relation it is."""


def vnode_metadata(done: VnodeDone, *, seconds: float, version: int) -> Metadata:
    """Return rows, and bytes where they are known; `seconds` since the one before it."""
    size = getattr(done, "bytes", None)
    spent = getattr(done, "seconds", None)
    shown: dict[str, dg.MetadataValue] = {
        "dagster/partition_row_count": dg.MetadataValue.int(done.rows),
        "rows": dg.MetadataValue.int(done.rows),
        VERSION: dg.MetadataValue.int(version),
        "seconds": dg.MetadataValue.float(round(seconds if spent is None else spent, 3)),
    }
    if size is not None:
        shown["bytes"] = dg.MetadataValue.int(size)
    return shown


def flush_metadata(
    epoch: Epoch, progress: PipelineProgress, relation: RelationProgress, *, now_ms: int
) -> Metadata:
    """Return what a flush came to: its epoch, the rows read so far, and how far behind we are."""
    lag = progress.lag_ms(now_ms)
    return {
        "epoch": dg.MetadataValue.int(epoch),
        "committed_at": dg.MetadataValue.text(show(epoch)),
        "state": dg.MetadataValue.text(relation.state),
        "rows_backfilled": dg.MetadataValue.int(relation.rows),
        "lag_seconds": dg.MetadataValue.float(0.0 if lag is None else lag / 1000),
    }


def definition_metadata(definition: str, vnode_count: int) -> Metadata:
    return {
        "sql": dg.MetadataValue.md(f"```sql\n{definition}\n```"),
        "vnodes": dg.MetadataValue.int(vnode_count),
    }
