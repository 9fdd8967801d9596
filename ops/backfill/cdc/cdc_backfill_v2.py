"""The backfill of a table in parallel: its key is cut into splits, which are read independently.

    insert splits ──▶ readers take split after split, each page by page ──▶ all splits are finished

The number of readers may be changed while it runs. A crash goes on at the page, not at the split:
each split has a cursor that is committed with its pages.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ops.backfill.cdc.split import (
    CdcTableSnapshotSplit,
    even_splits,
    is_dense,
    splits_at,
)
from ops.backfill.cdc.table_backfill import Splits, TableBackfill

MAX_SPLITS = 10_000


@dataclass
class ParallelizedCdcBackfillExecutor(TableBackfill):
    version: ClassVar[int] = 2

    def cut(self) -> tuple[Sequence[CdcTableSnapshotSplit], int | None]:
        plan, schema, table = self.plan, self.plan.external_schema, self.plan.external_table
        if not plan.snapshot:
            return splits_at(()), 0
        bounds = self.source.key_bounds(schema, table, self.scan[0])
        even = plan.even_splits and bounds.is_integer
        if even and is_dense(bounds.low, bounds.high, bounds.estimated_rows):
            rows = bounds.estimated_rows or 0
            splits = even_splits(
                bounds.low,
                bounds.high,
                estimated_rows=rows,
                rows_per_split=plan.rows_per_split,
                max_splits=MAX_SPLITS,
            )
            return splits, bounds.estimated_rows
        sample = self.source.sample_keys(
            schema,
            table,
            self.scan,
            rows_per_split=plan.rows_per_split,
            max_splits=MAX_SPLITS,
        )
        return splits_at(sample.cuts), sample.estimated_rows

    def readers(self) -> int:
        return self.gate.parallelism or self.plan.parallelism

    def offsets(self, splits: Splits, lsn: int) -> Mapping[str, Any] | None:
        return None
