"""The aggregate functions there are, and what each of them gives, as in Postgres.

    count                          any                     int8, never NULL
    sum                            int2, int4              int8
                                   int8, numeric           numeric
    avg, var_pop, var_samp         integers, numeric       numeric, kept as numeric(38,18)
    min, max                       all but bool            the same
    bool_and (every), bool_or      bool                    bool
    bit_and, bit_or, bit_xor       integers                the same

All but count are NULL over no value. A value that is NULL does not count.

Pure.
"""

from collections.abc import Sequence

from sqlglot import exp

from ops.common.schema import BOOL, INT8, INTEGERS, NUMERIC, DataType, Kind
from ops.planner.expr import Expr, fixed_scale, type_of
from ops.planner.expr_functions import Unresolved, coerce
from ops.planner.expr_types import as_numeric, shown
from ops.planner.plan_view import AggKind

_TREES: dict[type[exp.Expr], AggKind] = {
    exp.Count: AggKind.COUNT,
    exp.Sum: AggKind.SUM,
    exp.Avg: AggKind.AVG,
    exp.Min: AggKind.MIN,
    exp.Max: AggKind.MAX,
    exp.LogicalAnd: AggKind.BOOL_AND,
    exp.LogicalOr: AggKind.BOOL_OR,
    exp.BitwiseAndAgg: AggKind.BIT_AND,
    exp.BitwiseOrAgg: AggKind.BIT_OR,
    exp.BitwiseXorAgg: AggKind.BIT_XOR,
    exp.VariancePop: AggKind.VAR_POP,
    exp.Variance: AggKind.VAR_SAMP,
}
_ORDERED = (*INTEGERS, Kind.NUMERIC, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_SUMMED = (*INTEGERS, Kind.NUMERIC)


def kind_of(tree: exp.Expr) -> AggKind | None:
    """Return which aggregate a tree calls, if it is one we know."""
    if isinstance(tree, exp.Anonymous) and tree.name.lower() == "every":
        return AggKind.BOOL_AND
    return _TREES.get(type(tree))


def arguments(tree: exp.Expr) -> tuple[Sequence[exp.Expr], bool]:
    """Return the arguments of an aggregate and whether they are DISTINCT."""
    if isinstance(tree, exp.Anonymous):
        found = list(tree.expressions)
    else:
        found = [tree.this, *tree.args.get("expressions", [])]
    if len(found) == 1 and isinstance(found[0], exp.Distinct):
        return found[0].expressions, True
    return found, False


def result_of(kind: AggKind, argument: Expr) -> tuple[Expr, DataType]:
    """Return the argument as the function takes it, and the type of the result."""
    if argument.type is None:
        argument = coerce(argument, DataType(Kind.TEXT))
    given = type_of(argument)
    match kind:
        case AggKind.COUNT:
            return argument, INT8
        case AggKind.SUM if given.kind in (Kind.INT2, Kind.INT4):
            return argument, INT8
        case AggKind.SUM if given.kind in _SUMMED:
            return argument, DataType(Kind.NUMERIC, 38, as_numeric(given).scale)
        case AggKind.AVG if given.kind in _SUMMED and as_numeric(given).scale <= 18:
            if fixed_scale(argument) is None:
                what = "the digits of an average of numerics without precision are not known here"
                raise Unresolved(what, "cast its argument to numeric(p, s)")
            return argument, NUMERIC
        case AggKind.VAR_POP | AggKind.VAR_SAMP if given.kind in _SUMMED:
            if as_numeric(given).scale > 9:
                raise Unresolved(
                    f"{kind} of {given} would not fit into 38 digits", "cast it to numeric(p, s)"
                )
            return argument, NUMERIC
        case AggKind.MIN | AggKind.MAX if given.kind in _ORDERED and not given.name:
            return argument, given
        case AggKind.BOOL_AND | AggKind.BOOL_OR if given.kind is Kind.BOOL:
            return argument, BOOL
        case AggKind.BIT_AND | AggKind.BIT_OR | AggKind.BIT_XOR if given.kind in INTEGERS:
            return argument, given
    raise Unresolved(f"there is no {kind} over {shown(given)} here", "cast its argument")
