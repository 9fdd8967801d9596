"""Which types a table and a view have, once the columns of what they read are known.

    call                    result            total kept in the state
    count(*), count(x)      int8              int8
    sum(int2), sum(int4)    int8              numeric(38,0)
    sum(int8)               numeric(38,0)     numeric(38,0)
    sum(numeric(p,s))       numeric(38,s)     numeric(38,s)

Totals are exact and wider than any result, so that a sum that leaves its result's range fails at
the cast to it and never wraps. A total starts at 0, and beside each sum stands the number of values
in it that are not NULL: at 0 of them the result is NULL.

Pure.
"""

from typing import assert_never

from ops.common.errors import SourceNotReady, Unsupported
from ops.common.schema import INT8, Column, DataType, Kind, Schema
from ops.planner.names import clash, column_fault
from ops.planner.plan import (
    ROW_COUNT,
    AggCall,
    AggKind,
    BoundCall,
    BoundView,
    TablePlan,
    ViewPlan,
    count_name,
    total_name,
)

WIDE_INTEGER = DataType(Kind.NUMERIC, 38, 0)


def bind_table(plan: TablePlan, found: Schema) -> Schema:
    """Return the table's schema, given the columns and the key `found` at the source.

    An explicit list keeps its own types, each of which holds every value of the source's.
    """
    _require_key(plan, found)
    if plan.columns is None or plan.key is None:
        bound = found
    else:
        if plan.key != found.key:
            raise Unsupported(
                f"table {plan.name} declares PRIMARY KEY ({', '.join(plan.key)}), but that of "
                f"{_external(plan)} is ({', '.join(found.key)})",
                hint="declare the source's key",
            )
        columns = tuple(_bind_column(plan, column, found) for column in plan.columns)
        bound = Schema(columns, found.key)
    for name in bound.names:
        if why := column_fault(name):
            raise Unsupported(f"column {name!r} of {_external(plan)} {why}", hint=_LIST_HINT)
    if pair := clash(bound.names):
        what = f"columns {pair[0]!r} and {pair[1]!r} of {_external(plan)} differ only in case"
        raise Unsupported(what, hint=_LIST_HINT)
    return bound


def bind_view(view: ViewPlan, upstream: Schema) -> BoundView:
    """Return the view with its types, given the schema of what it reads."""
    keys = tuple(_bind_key(view, source, name, upstream) for source, name in view.keys)
    calls = tuple(_bind_call(view, call, upstream) for call in view.calls)
    group = tuple(column.name for column in keys)
    made = {column.name: column for column in keys}
    made |= {c.output: Column(c.output, c.result, c.kind is AggKind.SUM) for c in calls}
    hidden = tuple(column for column in keys if column.name not in view.outputs)
    output = Schema((*(made[name] for name in view.outputs), *hidden), group)
    states = (column for call in calls for column in _state_columns(call))
    state = Schema((*keys, Column(ROW_COUNT, INT8, nullable=False), *states), group)
    return BoundView(view, calls, output, state)


_LIST_HINT = "rename it at the source, or list the columns you want instead of (*)"


def _require_key(plan: TablePlan, found: Schema) -> None:
    if not found.key:
        raise SourceNotReady(
            f"{_external(plan)} has no primary key, so its rows cannot be told apart; run "
            f"ALTER TABLE {_external(plan)} ADD PRIMARY KEY (…) at the source"
        )


def _bind_column(plan: TablePlan, wanted: Column, found: Schema) -> Column:
    if wanted.name not in found.names:
        raise Unsupported(
            f"table {plan.name}: {_external(plan)} has no column {wanted.name!r}",
            hint=f"there are: {', '.join(found.names)}",
        )
    there = found.column(wanted.name)
    if wanted.type != there.type:
        raise Unsupported(
            f"table {plan.name}: column {wanted.name} is declared {wanted.type}, "
            f"but is {there.type} in {_external(plan)}",
            hint=f"declare it {there.type}",
        )
    if there.nullable and not wanted.nullable and wanted.name not in found.key:
        raise Unsupported(
            f"table {plan.name}: column {wanted.name} is declared NOT NULL, "
            f"but may be NULL in {_external(plan)}",
            hint="leave NOT NULL out",
        )
    return Column(wanted.name, wanted.type, there.nullable)


def _bind_key(view: ViewPlan, source: str, name: str, upstream: Schema) -> Column:
    column = _upstream_column(view, source, upstream)
    return Column(name, column.type, column.nullable)


def _bind_call(view: ViewPlan, call: AggCall, upstream: Schema) -> BoundCall:
    column = None if call.column is None else _upstream_column(view, call.column, upstream)
    match call.kind:
        case AggKind.COUNT:
            result = INT8
        case AggKind.SUM if column is not None and (summed := _sum_type(column.type)):
            result = summed
        case AggKind.SUM:
            of = "*" if column is None else f"{column.name}, which is {column.type}"
            raise Unsupported(
                f"view {view.name}: there is no sum over {of}",
                hint="sum takes int2, int4, int8 and numeric",
            )
        case _:
            assert_never(call.kind)
    return BoundCall(call.kind, call.column, call.output, result)


def _sum_type(argument: DataType) -> DataType | None:
    match argument.kind:
        case Kind.INT2 | Kind.INT4:
            return INT8
        case Kind.INT8:
            return WIDE_INTEGER
        case Kind.NUMERIC:
            return DataType(Kind.NUMERIC, 38, argument.scale)
        case Kind.FLOAT4 | Kind.FLOAT8 | Kind.TEXT | Kind.BOOL | Kind.BYTEA | Kind.OTHER:
            return None
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return None
        case _:
            assert_never(argument.kind)


def _state_columns(call: BoundCall) -> tuple[Column, ...]:
    match call.kind:
        case AggKind.COUNT:
            return (Column(total_name(call.output), INT8, nullable=False),)
        case AggKind.SUM:
            total = WIDE_INTEGER if call.result.kind is Kind.INT8 else call.result
            return (
                Column(total_name(call.output), total, nullable=False),
                Column(count_name(call.output), INT8, nullable=False),
            )
        case _:
            assert_never(call.kind)


def _upstream_column(view: ViewPlan, name: str, upstream: Schema) -> Column:
    if name not in upstream.names:
        raise Unsupported(
            f"view {view.name}: {view.upstream} has no column {name!r}",
            hint=f"there are: {', '.join(upstream.names)}",
        )
    return upstream.column(name)


def _external(plan: TablePlan) -> str:
    return f"{plan.external_schema}.{plan.external_table}"
