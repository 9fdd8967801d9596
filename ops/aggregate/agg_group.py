"""One group of a view, row by row: the law that the Spark executors carry out over columns.

    before  after   rows          change
    0       0       -             none
    0       >0      -             insert
    >0      0       -             delete of the row sent before
    >0      >0      equal         none
    >0      >0      different     update

That is OnlyOutputIfHasInput; with AlwaysOutput a group without rows shows the results over nothing.
A negative count is an error. The column twins are `ops.aggregate.agg_sql` and `hash_agg`.

Pure.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, assert_never

from ops.common.change import Change, Delete, Insert, Row, Update
from ops.common.errors import NegativeRowCount
from ops.planner.agg_state import BITS, AggStateStorage, storage_of
from ops.planner.expr import fixed_scale, type_of
from ops.planner.plan_view import AggCall, AggKind, AggView, Strategy, needs_entries
from ops.planner.quotient import quotient

# The default of 28 digits would round a sum over numeric(38,18).
_EXACT = Context(prec=200)


def infer_change(before: Row | None, after: Row | None) -> Change | None:
    if before is None:
        return None if after is None else Insert(after)
    if after is None:
        return Delete(before)
    return None if before == after else Update(before, after)


@dataclass
class DistinctDeduplicater:
    """How often each value is there; only its coming and its going reach the state."""

    counts: Counter[Any] = field(default_factory=Counter)

    def pass_on(self, value: Any, sign: int) -> bool:
        before = self.counts[value]
        self.counts[value] = before + sign
        if self.counts[value] < 0:
            raise ValueError(f"{value!r} was retracted more often than it came")
        if self.counts[value] == 0:
            del self.counts[value]
        return (before == 0) != (before + sign == 0)


@dataclass
class AggState:
    """Sums of a call's values, of their squares and per bit, and how many values they are."""

    total: Decimal = Decimal(0)
    squares: Decimal = Decimal(0)
    values: int = 0
    odd: int = 0
    bits: Counter[int] = field(default_factory=Counter)
    distinct: DistinctDeduplicater = field(default_factory=DistinctDeduplicater)

    def apply(self, call: AggCall, value: Any, sign: int) -> None:
        if value is None:
            return
        if needs_entries(call) and not self.distinct.pass_on(value, sign):
            return
        self.values += sign
        if storage_of(call) is AggStateStorage.MATERIALIZED_INPUT:
            return
        match call.kind:
            case AggKind.BIT_AND | AggKind.BIT_OR:
                self._count_bits(call, value, sign)
            case AggKind.BIT_XOR:
                self.odd ^= value
            case AggKind.BOOL_AND | AggKind.BOOL_OR:
                self.total += sign * int(value is (call.kind is AggKind.BOOL_OR))
            case AggKind.COUNT:
                self.total += sign
            case _:
                number = Decimal(value)
                square = _EXACT.multiply(number, number)
                add = _EXACT.add if sign > 0 else _EXACT.subtract
                self.total, self.squares = add(self.total, number), add(self.squares, square)

    def output(self, call: AggCall) -> Any:
        if call.kind is AggKind.COUNT:
            return self.total
        if self.values == 0:
            return None
        match call.kind:
            case AggKind.SUM:
                return self.total
            case AggKind.AVG:
                return quotient(self.total, Decimal(self.values), digits=_digits(call))
            case AggKind.VAR_POP | AggKind.VAR_SAMP:
                return self._variance(call)
            case AggKind.MIN:
                return min(self.distinct.counts)
            case AggKind.MAX:
                return max(self.distinct.counts)
            case AggKind.BOOL_AND:
                return self.total == 0
            case AggKind.BOOL_OR:
                return self.total != 0
            case AggKind.BIT_AND | AggKind.BIT_OR:
                return self._bits(call)
            case AggKind.BIT_XOR:
                return self.odd
            case _:
                assert_never(call.kind)

    def _variance(self, call: AggCall) -> Decimal | None:
        n = self.values
        among = n * n if call.kind is AggKind.VAR_POP else n * (n - 1)
        if among == 0:
            return None
        spread = _EXACT.subtract(
            _EXACT.multiply(Decimal(n), self.squares), _EXACT.multiply(self.total, self.total)
        )
        return quotient(spread, Decimal(among), digits=2 * _digits(call))

    def _count_bits(self, call: AggCall, value: int, sign: int) -> None:
        for bit in range(_width(call)):
            self.bits[bit] += sign * (value >> bit & 1)

    def _bits(self, call: AggCall) -> int:
        width = _width(call)
        needed = self.values if call.kind is AggKind.BIT_AND else 1
        number = sum(1 << bit for bit in range(width) if self.bits[bit] >= needed)
        return number - (1 << width) if number >> (width - 1) else number


@dataclass
class AggGroup:
    """`apply` takes what each call takes of a row: NULL where its filter is not true."""

    view: AggView
    key: Row
    rows: int = 0
    states: list[AggState] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = self.states or [AggState() for _ in self.view.calls]

    def apply(self, values: Sequence[Any], sign: int) -> None:
        self.rows += sign
        for call, state, value in zip(self.view.calls, self.states, values, strict=True):
            state.apply(call, value, sign)

    def output(self, epoch: int) -> Row | None:
        if self.rows < 0:
            raise NegativeRowCount(
                view=self.view.plan.name, group=self.key, count=self.rows, epoch=epoch
            )
        if self.rows == 0 and self.view.strategy is Strategy.ONLY_OUTPUT_IF_HAS_INPUT:
            return None
        pairs = zip(self.view.calls, self.states, strict=True)
        return (*self.key, *(state.output(call) for call, state in pairs))


def _digits(call: AggCall) -> int:
    assert call.argument is not None
    return fixed_scale(call.argument) or 0


def _width(call: AggCall) -> int:
    assert call.argument is not None
    return BITS[type_of(call.argument).kind]
