"""What a group's change of row count means for the rows downstream sees.

    before  after   rows          change
    0       0       -             none
    0       >0      -             insert
    >0      0       -             delete of the row sent before
    >0      >0      equal         none
    >0      >0      different     update

The column twin is `ops.aggregate.hash_agg.output_row`; a negative count is an error.

Pure.
"""

from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

from ops.common.change import Change, Delete, Insert, Row, Update
from ops.common.errors import NegativeRowCount
from ops.planner.plan import AggKind, BoundCall, BoundView

# The default of 28 digits would round a sum over numeric(38,18).
_EXACT = Context(prec=100)


def infer_change(before: Row | None, after: Row | None) -> Change | None:
    if before is None:
        return None if after is None else Insert(after)
    if after is None:
        return Delete(before)
    return None if before == after else Update(before, after)


@dataclass
class CallState:
    """The total of a call and how many non-NULL values are in it: at none, a sum is NULL."""

    total: Decimal = Decimal(0)
    values: int = 0

    def apply(self, call: BoundCall, value: Any, sign: int) -> None:
        if call.column is None:
            self.total += sign
        elif value is not None:
            self.values += sign
            added = Decimal(1) if call.kind is AggKind.COUNT else Decimal(value)
            self.total = (_EXACT.add if sign > 0 else _EXACT.subtract)(self.total, added)

    def output(self, call: BoundCall) -> Decimal | None:
        if call.kind is AggKind.SUM and self.values == 0:
            return None
        return self.total


@dataclass
class AggGroup:
    """One group of a view, row by row: the law that the Spark executor carries out over columns."""

    view: BoundView
    key: Row
    rows: int = 0
    states: list[CallState] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = self.states or [CallState() for _ in self.view.calls]

    def apply(self, row: dict[str, Any], sign: int) -> None:
        self.rows += sign
        for call, state in zip(self.view.calls, self.states, strict=True):
            state.apply(call, row[call.column] if call.column else None, sign)

    def output(self, epoch: int) -> Row | None:
        if self.rows < 0:
            raise NegativeRowCount(
                view=self.view.plan.name, group=self.key, count=self.rows, epoch=epoch
            )
        if self.rows == 0:
            return None
        pairs = zip(self.view.calls, self.states, strict=True)
        return (*self.key, *(state.output(call) for call, state in pairs))
