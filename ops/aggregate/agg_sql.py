"""Spark SQL of the laws of `agg_state`: what rows add to a state, how states join, what comes out.

Each text stands inside one grouping or one select; no function of ours runs on the data path. The
law row by row is `agg_group.AggGroup`.

Pure.
"""

from collections.abc import Callable
from typing import assert_never

from ops.common.schema import INT8, Schema, quote, spark_type
from ops.planner.agg_state import (
    BITS,
    Merge,
    StateColumn,
    bit_name,
    count_name,
    squares_name,
    state_columns,
    total_name,
)
from ops.planner.expr import fixed_scale, type_of
from ops.planner.expr_types import as_numeric
from ops.planner.plan_view import ROW_COUNT, AggCall, AggKind, AggView
from ops.planner.quotient import quotient_sql

Field = Callable[[str], str]


def contributions(call: AggCall, value: str, sign: str) -> dict[str, str]:
    """Return what a group's rows add to each state column of a call, by the column's name."""
    name = call.output
    counted = f"sum(CASE WHEN {value} IS NOT NULL THEN {sign} ELSE 0 END)"
    count = {count_name(name): _big(counted)}
    match call.kind:
        case AggKind.COUNT:
            return {total_name(name): _big(counted)}
        case AggKind.SUM | AggKind.AVG:
            return {total_name(name): _signed(call, total_name(name), value, sign), **count}
        case AggKind.VAR_POP | AggKind.VAR_SAMP:
            assert call.argument is not None
            exact = f"CAST({value} AS {spark_type(as_numeric(type_of(call.argument)))})"
            return {
                total_name(name): _signed(call, total_name(name), value, sign),
                squares_name(name): _signed(call, squares_name(name), f"{exact} * {exact}", sign),
                **count,
            }
        case AggKind.BOOL_AND:
            return {total_name(name): _big(f"sum(IF(NOT {value}, {sign}, 0))"), **count}
        case AggKind.BOOL_OR:
            return {total_name(name): _big(f"sum(IF({value}, {sign}, 0))"), **count}
        case AggKind.BIT_AND | AggKind.BIT_OR:
            bits = range(_bits(call))
            return {
                bit_name(name, b): _big(f"sum(IF({_bit(value, b)}, {sign}, 0))") for b in bits
            } | count
        case AggKind.BIT_XOR:
            # What is retracted is xored once more, and gone.
            odd = f"coalesce(bit_xor({value}), 0)"
            return {total_name(name): f"CAST({odd} AS {spark_type(call.result)})", **count}
        case AggKind.MIN | AggKind.MAX:
            return {}
        case _:
            assert_never(call.kind)


def merged(column: StateColumn, before: str, delta: str) -> str:
    to = spark_type(column.type)
    match column.merge:
        case Merge.SUM:
            return f"CAST(coalesce({before}, CAST(0 AS {to})) + {delta} AS {to})"
        case Merge.XOR:
            return f"CAST(coalesce({before}, CAST(0 AS {to})) ^ {delta} AS {to})"
        case Merge.BEST:
            return delta
        case _:
            assert_never(column.merge)


def result(call: AggCall, field: Field) -> str:
    """Return a call's result; `field` gives the text of a state column by its name."""
    name = call.output
    total, count = field(total_name(name)), field(count_name(name))
    match call.kind:
        case AggKind.COUNT:
            return total
        case AggKind.MIN | AggKind.MAX:
            return field(state_columns(call)[0].name)
        case AggKind.SUM | AggKind.BIT_XOR:
            value = f"CAST({total} AS {spark_type(call.result)})"
        case AggKind.AVG:
            value = _average(call, total, count)
        case AggKind.VAR_POP | AggKind.VAR_SAMP:
            return _variance(call, total, field(squares_name(name)), count)
        case AggKind.BOOL_AND:
            value = f"{total} = 0"
        case AggKind.BOOL_OR:
            value = f"{total} <> 0"
        case AggKind.BIT_AND | AggKind.BIT_OR:
            value = _bits_text(call, field, count)
        case _:
            assert_never(call.kind)
    return f"CASE WHEN {count} <> 0 THEN {value} END"


def zero_state(view: AggView) -> str:
    """Return the state of a group without rows, its key that of the only group."""
    columns = {c.name: c for call in view.calls for c in state_columns(call)}
    fields = []
    for column in view.state.columns:
        nothing = column.name in columns and columns[column.name].nullable
        fields.append(
            f"'{column.name}', CAST({'NULL' if nothing else '0'} AS {spark_type(column.type)})"
        )
    return f"named_struct({', '.join(fields)})"


def named_struct(schema: Schema, value: Callable[[str], str]) -> str:
    """Return a struct with the schema's columns, each cast to its type."""
    fields = (
        f"{_text(c.name)}, CAST({value(c.name)} AS {spark_type(c.type)})" for c in schema.columns
    )
    return f"named_struct({', '.join(fields)})"


def state_field(path: str) -> Field:
    return lambda name: f"{path}.{quote(name)}"


def storage_columns(view: AggView) -> list[StateColumn]:
    return [StateColumn(ROW_COUNT, INT8), *(c for call in view.calls for c in state_columns(call))]


def _text(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def _big(sql: str) -> str:
    return f"CAST(coalesce({sql}, 0) AS BIGINT)"


def _signed(call: AggCall, column: str, value: str, sign: str) -> str:
    """Return an exact sum of values that are taken away where the sign is negative."""
    to = next(spark_type(c.type) for c in state_columns(call) if c.name == column)
    wide = f"CAST({value} AS {to})"
    # Not `-wide`: Spark's unary minus rounds to 34 digits, its subtraction does not.
    signed = f"CASE WHEN {sign} < 0 THEN CAST(0 AS {to}) - {wide} ELSE {wide} END"
    # A plain 0 would be widened with the sum, at the cost of its last digits.
    return f"CAST(coalesce(sum({signed}), CAST(0 AS {to})) AS {to})"


def _bits(call: AggCall) -> int:
    assert call.argument is not None
    return BITS[type_of(call.argument).kind]


def _bit(value: str, bit: int) -> str:
    return f"(shiftright(CAST({value} AS BIGINT), {bit}) & 1L) = 1L"


def _bits_text(call: AggCall, field: Field, count: str) -> str:
    """Return the number whose bits are set in all values, or in one of them."""
    width = _bits(call)
    test = f"= {count}" if call.kind is AggKind.BIT_AND else "> 0"
    terms = []
    for bit in range(width):
        power = -(1 << bit) if bit == width - 1 else 1 << bit
        text = f"CAST('{power}' AS BIGINT)"
        terms.append(f"IF({field(bit_name(call.output, bit))} {test}, {text}, 0L)")
    return f"CAST({' + '.join(terms)} AS {spark_type(call.result)})"


def _average(call: AggCall, total: str, count: str) -> str:
    assert call.argument is not None
    scale = as_numeric(type_of(call.argument)).scale
    digits = fixed_scale(call.argument) or 0
    return quotient_sql(total, count, scale=scale, digits=digits)


def _variance(call: AggCall, total: str, squares: str, count: str) -> str:
    """Return (n Σx² - (Σx)²) / (n n), or by n (n - 1) for a sample, as Postgres divides it."""
    assert call.argument is not None
    scale = 2 * as_numeric(type_of(call.argument)).scale
    n = f"CAST({count} AS DECIMAL(38,0))"
    wide = f"DECIMAL(38,{scale})"
    spread = f"CAST(CAST({n} * {squares} AS {wide}) - CAST({total} * {total} AS {wide}) AS {wide})"
    pop = call.kind is AggKind.VAR_POP
    among = f"CAST({n} * ({n}{'' if pop else ' - 1'}) AS DECIMAL(38,0))"
    digits = 2 * (fixed_scale(call.argument) or 0)
    value = quotient_sql(spread, among, scale=scale, digits=digits)
    return f"CASE WHEN {count} > {0 if pop else 1} THEN {value} END"
