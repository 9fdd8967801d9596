"""What is kept of each call between epochs, and how a call's result comes out of it.

    call                     state columns                          result
    count                    total                                  total
    sum                      total, count                           total
    avg                      total, count                           total / count
    var_pop, var_samp        total, squares, count                  by their formula
    bool_and, bool_or        total = how many are false / true      total = 0, total <> 0
    bit_and, bit_or          per bit: how many have it              all have it, one has it
    bit_xor                  total = xor of all                     total
    min, max                 best = the least or greatest           best

Every call but count keeps the count of its values: at 0 its result is NULL, which is how a
retracted last value gives NULL. Totals are exact and wider than any result; a sum that leaves its
result's range fails at the cast to it and never wraps. The column twin is `ops.aggregate.agg_sql`.

Pure.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from ops.common.schema import INT8, DataType, Kind
from ops.planner.expr import type_of
from ops.planner.expr_types import as_numeric
from ops.planner.plan_view import AggCall, AggKind

WIDE_INTEGER = DataType(Kind.NUMERIC, 38, 0)
BITS = {Kind.INT2: 16, Kind.INT4: 32, Kind.INT8: 64}


class AggStateStorage(StrEnum):
    VALUE = "value"
    MATERIALIZED_INPUT = "materialized input"


class Merge(StrEnum):
    """How what an epoch adds joins what was there."""

    SUM = "sum"
    XOR = "xor"
    BEST = "best"


@dataclass(frozen=True, slots=True)
class StateColumn:
    name: str
    type: DataType
    merge: Merge = Merge.SUM
    nullable: bool = False


def storage_of(call: AggCall) -> AggStateStorage:
    if call.kind in (AggKind.MIN, AggKind.MAX):
        return AggStateStorage.MATERIALIZED_INPUT
    return AggStateStorage.VALUE


def total_name(output: str) -> str:
    return f"_tg_total_{output}"


def count_name(output: str) -> str:
    return f"_tg_count_{output}"


def squares_name(output: str) -> str:
    return f"_tg_squares_{output}"


def best_name(output: str) -> str:
    return f"_tg_best_{output}"


def bit_name(output: str, bit: int) -> str:
    return f"_tg_bit{bit}_{output}"


def state_columns(call: AggCall) -> tuple[StateColumn, ...]:
    name = call.output
    total, count = StateColumn(total_name(name), INT8), StateColumn(count_name(name), INT8)
    if call.argument is None:
        return (total,)
    given = type_of(call.argument)
    match call.kind:
        case AggKind.COUNT:
            return (total,)
        case AggKind.SUM | AggKind.AVG:
            return (StateColumn(total_name(name), sum_type(given)), count)
        case AggKind.VAR_POP | AggKind.VAR_SAMP:
            squares = DataType(Kind.NUMERIC, 38, min(38, 2 * as_numeric(given).scale))
            wide = StateColumn(total_name(name), sum_type(given))
            return (wide, StateColumn(squares_name(name), squares), count)
        case AggKind.BOOL_AND | AggKind.BOOL_OR:
            return (total, count)
        case AggKind.BIT_AND | AggKind.BIT_OR:
            return (*(StateColumn(bit_name(name, b), INT8) for b in range(BITS[given.kind])), count)
        case AggKind.BIT_XOR:
            return (StateColumn(total_name(name), given, Merge.XOR), count)
        case AggKind.MIN | AggKind.MAX:
            return (StateColumn(best_name(name), given, Merge.BEST, nullable=True),)
        case _:
            assert_never(call.kind)


def sum_type(given: DataType) -> DataType:
    return DataType(Kind.NUMERIC, 38, as_numeric(given).scale)
