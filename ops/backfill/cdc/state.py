"""Where the backfill with one reader stands, as it is written down with each of its commits.

    | split id | key columns … | backfill_finished | row_count | cdc_offset |

The split id is the table's name as text. Key columns are text, all NULL before the first row.
`cdc_offset` is a position of the stream that lies after everything the pages have seen. Narrower
rows are read: without the offset, and without the number of rows, too.

Pure.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ops.backfill.cdc.offset import PostgresOffset, parse_offset, serialize_offset
from ops.backfill.cdc.split import Key
from ops.common.errors import ConsistencyError


class UnreadableState(ConsistencyError):
    def __init__(self, row: Sequence[Any], why: str) -> None:
        self.row = tuple(row)
        super().__init__(f"the stored state {list(row)} of a backfill cannot be read: {why}")


@dataclass(frozen=True, slots=True)
class CdcBackfillState:
    """`position` is the last key that was read; None where none was. `rows` None: not counted."""

    split_id: str
    position: Key | None
    finished: bool
    rows: int | None
    offset: PostgresOffset | None

    def to_row(self, *, key_width: int) -> list[Any]:
        key = [None] * key_width if self.position is None else list(self.position)
        if len(key) != key_width:
            raise ValueError(f"{self.position} is not a key of {key_width} columns")
        offset = None if self.offset is None else json.loads(serialize_offset(self.offset))
        return [self.split_id, *key, self.finished, self.rows, offset]

    @staticmethod
    def from_row(row: Sequence[Any], *, key_width: int) -> "CdcBackfillState":
        """Read a row of this width or of an older one; an all-NULL position is none."""
        rest = row[1 + key_width :]
        if not 1 <= len(rest) <= 3:
            raise UnreadableState(row, f"it has {len(row)} columns for a key of {key_width}")
        key = row[1 : 1 + key_width]
        known = [part for part in key if part is not None]
        if known and len(known) != key_width:
            raise UnreadableState(row, "a part of its position is NULL")
        finished, rows, offset = (*rest, None, None)[:3]
        return CdcBackfillState(
            str(row[0]),
            tuple(str(part) for part in known) or None,
            bool(finished),
            rows,
            None if offset is None else parse_offset(json.dumps(offset)),
        )
