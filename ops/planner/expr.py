"""A scalar expression whose types are known: what Postgres would compute, as a plain value.

    Ref     a column of the row at hand
    Const   a value in Postgres's own text form, or NULL
    Cast    to another type; an implicit one widens and never changes the value
    Apply   an operator or a function by name; `expr_spark` knows what each is in Spark
    Case    WHEN … THEN … ELSE, as written

A quoted text and NULL have no type (None) until what surrounds them says which.

Pure.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ops.common.schema import NUMERIC, DataType, Kind


@dataclass(frozen=True, slots=True)
class Ref:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Const:
    text: str | None
    type: DataType | None


@dataclass(frozen=True, slots=True)
class Cast:
    operand: "Expr"
    type: DataType
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Apply:
    op: str
    args: "tuple[Expr, ...]"
    type: DataType


@dataclass(frozen=True, slots=True)
class Case:
    branches: "tuple[tuple[Expr, Expr], ...]"
    otherwise: "Expr"
    type: DataType


Expr = Ref | Const | Cast | Apply | Case


def type_of(expr: Expr) -> DataType:
    """Return the type of an expression that has one."""
    assert expr.type is not None, expr
    return expr.type


def parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Ref() | Const():
            return ()
        case Cast(operand):
            return (operand,)
        case Apply(_, args):
            return args
        case Case(branches, otherwise):
            return (*(e for pair in branches for e in pair), otherwise)


def refs(expr: Expr) -> Iterator[Ref]:
    if isinstance(expr, Ref):
        yield expr
    for part in parts(expr):
        yield from refs(part)


def rewrite(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Return the expression with each outermost part that `change` knows put in its place."""
    changed = change(expr)
    if changed is not None:
        return changed
    match expr:
        case Ref() | Const():
            return expr
        case Cast(operand):
            return replace(expr, operand=rewrite(operand, change))
        case Apply(_, args):
            return replace(expr, args=tuple(rewrite(a, change) for a in args))
        case Case(branches, otherwise):
            pairs = tuple((rewrite(w, change), rewrite(t, change)) for w, t in branches)
            return replace(expr, branches=pairs, otherwise=rewrite(otherwise, change))


def fixed_scale(expr: Expr) -> int | None:
    """Return how many digits after the point Postgres prints of each value, if it is one number.

    A numeric without precision has as many as were written, which the lake does not keep.
    """
    kind = expr.type and expr.type.kind
    if kind in (Kind.INT2, Kind.INT4, Kind.INT8):
        return 0
    if kind is not Kind.NUMERIC or expr.type is None:
        return None
    match expr:
        case Ref():
            return None if expr.type == NUMERIC else expr.type.scale
        case Const():
            return expr.type.scale
        case Cast(operand, to, implicit):
            return fixed_scale(operand) if implicit else to.scale
        case Apply("+" | "-" | "*" | "%" | "negate" | "abs", args):
            known = [fixed_scale(a) for a in args]
            return None if None in known else expr.type.scale
        case Apply("round" | "floor" | "ceil" | "trunc"):
            return expr.type.scale
        case Apply("extract_second" | "extract_epoch"):
            return 6
        case Apply("nullif", (first, *_)):
            return fixed_scale(first)
        case Apply("sign"):
            return 0
        case Apply("coalesce" | "greatest" | "least", args):
            return _one_scale(args)
        case Case(branches, otherwise):
            return _one_scale((*(then for _, then in branches), otherwise))
        case Apply(op):
            return 0 if op.startswith("extract_") else None


def _one_scale(values: tuple[Expr, ...]) -> int | None:
    scales = {fixed_scale(v) for v in values if not _is_null(v)}
    return scales.pop() if len(scales) == 1 else None


def _is_null(expr: Expr) -> bool:
    match expr:
        case Const(None):
            return True
        case Cast(operand):
            return _is_null(operand)
        case _:
            return False
