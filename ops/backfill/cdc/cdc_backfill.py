"""The backfill of a table by one reader, in key order: `backfill.parallelism = '0'`.

    page ▶ page ▶ page        (a, b) > cursor ORDER BY a, b
    ───────────────┤ cursor, written down with each commit
    readable so far  not yet

It is slower than splits in parallel, takes one connection, and what it has passed can be read while
it goes on (`read --partial`), where Spark shares the key's order.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ops.backfill.cdc.offset import PostgresOffset
from ops.backfill.cdc.split import CdcTableSnapshotSplit, splits_at
from ops.backfill.cdc.state import CdcBackfillState
from ops.backfill.cdc.table_backfill import Splits, TableBackfill

STATE, GENERATION, BYTEWISE = "backfill_state", "generation", "bytewise"


@dataclass
class CdcBackfillExecutor(TableBackfill):
    version: ClassVar[int] = 1

    def cut(self) -> tuple[Sequence[CdcTableSnapshotSplit], int | None]:
        plan = self.plan
        if not plan.snapshot:
            return splits_at(()), 0
        bounds = self.source.key_bounds(plan.external_schema, plan.external_table, self.scan[0])
        return splits_at(()), bounds.estimated_rows

    def readers(self) -> int:
        return 1

    def offsets(self, splits: Splits, lsn: int) -> Mapping[str, Any] | None:
        (split,) = splits.values()
        state = CdcBackfillState(
            self.relation.name, split.cursor, split.finished, split.rows, PostgresOffset(lsn)
        )
        return {
            STATE: state.to_row(key_width=len(self.scan)),
            GENERATION: self.keeper.term.generation,
            BYTEWISE: [column.bytewise for column in self.scan],
        }
