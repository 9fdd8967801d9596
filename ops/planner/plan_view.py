"""A view whose types are known: what is kept of each row, grouped how, shown as what.

    project     rows of the upstream, one for one: WHERE and the columns
    aggregate   rows -> WHERE -> groups by `keys` -> `calls` -> HAVING -> the columns

Expressions before the grouping refer to columns of the upstream; those after it to the names of
keys and to the outputs of calls, which share one space of names.

Pure.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from ops.common.schema import DataType, Schema
from ops.planner.expr import Expr
from ops.planner.plan import ViewPlan


class AggKind(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"


class Strategy(StrEnum):
    """What a group without rows shows."""

    ONLY_OUTPUT_IF_HAS_INPUT = "nothing"
    ALWAYS_OUTPUT = "one row, as SQL has it for an aggregate without GROUP BY"


@dataclass(frozen=True, slots=True)
class Named:
    name: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class AggCall:
    """`argument` is None for count(*). A row counts if `filter` is true and the argument not NULL.

    `result` is the type Postgres gives it.
    """

    kind: AggKind
    argument: Expr | None
    output: str
    result: DataType
    filter: Expr | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class ProjectView:
    """The key is the upstream's; where it is not selected it is kept in hidden columns."""

    plan: ViewPlan
    where: Expr | None
    columns: tuple[Named, ...]
    output: Schema


@dataclass(frozen=True, slots=True)
class Entries:
    """A table of the values a call has seen, each with how often: `| group key | value | count |`.

    Calls with the same argument and filter share one. It serves DISTINCT, by the values that come
    and go, and min and max, by the least or greatest that is left.
    """

    name: str
    argument: Expr
    filter: Expr | None
    schema: Schema


@dataclass(frozen=True, slots=True)
class AggView:
    """`state` is the intermediate table: the group's key, its row count, the state of each call."""

    plan: ViewPlan
    where: Expr | None
    keys: tuple[Named, ...]
    calls: tuple[AggCall, ...]
    having: Expr | None
    columns: tuple[Named, ...]
    strategy: Strategy
    output: Schema
    state: Schema
    entries: tuple[Entries, ...] = field(default=())

    def entries_of(self, call: AggCall) -> int:
        """Return which entries table a call uses."""
        same = [(e.argument, e.filter) for e in self.entries]
        assert call.argument is not None
        return same.index((call.argument, call.filter))


BoundView = ProjectView | AggView

ROW_COUNT = "_tg_rows"
VALUE = "_tg_value"
ENTRY_COUNT = "_tg_count"
ONE_GROUP = "_tg_key_all"
"""The key of the only group of an aggregate without GROUP BY."""


def needs_entries(call: AggCall) -> bool:
    insensitive = (AggKind.BOOL_AND, AggKind.BOOL_OR, AggKind.BIT_AND, AggKind.BIT_OR)
    if call.kind in (AggKind.MIN, AggKind.MAX):
        return True
    return call.distinct and call.kind not in insensitive


def state_name(view: str) -> str:
    return f"{view}__state"


def entries_name(view: str, number: int) -> str:
    return f"{view}__entries_{number}"


def state_schemas(view: BoundView) -> dict[str, Schema]:
    """Return the names and schemas of a view's state tables, the intermediate one first."""
    match view:
        case ProjectView():
            return {}
        case AggView():
            entries = {e.name: e.schema for e in view.entries}
            return {state_name(view.plan.name): view.state, **entries}
        case _:
            assert_never(view)
