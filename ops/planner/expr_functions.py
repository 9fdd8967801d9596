"""The scalar functions there are: their names, arguments and results, as in Postgres.

A fixed signature stands in `FIXED`; what depends on an argument's type or value is a function of
its own below. What is not here, or would not give the same in Spark, does not resolve.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence

from ops.common.schema import BOOL, TEXT, DataType, Kind
from ops.planner.expr import Apply, Cast, Const, Expr, fixed_scale, type_of
from ops.planner.expr_types import (
    INT4,
    NUMBERS,
    TIMES,
    TIMESTAMP,
    TIMESTAMPTZ,
    as_numeric,
    common_type,
    compares_alike,
    numeric,
    read_literal,
    shown,
    whole_digits,
    widens,
)


class Unresolved(Exception):
    """No such function, operator or cast; the message says of which types, `hint` what to do."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what, self.hint = what, hint
        super().__init__(what)


_T, _I = TEXT, INT4
FIXED: Mapping[str, tuple[tuple[tuple[DataType, ...], DataType], ...]] = {
    "lower": (((_T,), _T),),
    "upper": (((_T,), _T),),
    "length": (((_T,), _I),),
    "octet_length": (((_T,), _I),),
    "reverse": (((_T,), _T),),
    "md5": (((_T,), _T),),
    "ascii": (((_T,), _I),),
    "btrim": (((_T,), _T), ((_T, _T), _T)),
    "ltrim": (((_T,), _T), ((_T, _T), _T)),
    "rtrim": (((_T,), _T), ((_T, _T), _T)),
    "replace": (((_T, _T, _T), _T),),
    "strpos": (((_T, _T), _I),),
    "left": (((_T, _I), _T),),
    "right": (((_T, _I), _T),),
    "substring": (((_T, _I), _T), ((_T, _I, _I), _T)),
    "repeat": (((_T, _I), _T),),
    "split_part": (((_T, _T, _I), _T),),
    "starts_with": (((_T, _T), BOOL),),
}
ALIASES = {
    "substr": "substring",
    "char_length": "length",
    "character_length": "length",
    "ceiling": "ceil",
    "position": "strpos",
}
UNITS = tuple(
    "microseconds milliseconds second minute hour day week month quarter year".split()  # noqa: SIM905
)
_DAY_FIELDS = ("year", "isoyear", "quarter", "month", "week", "day", "dow", "isodow", "doy")
_TIME_FIELDS = ("hour", "minute", "second", "epoch")
_FLOAT_HINT = "cast the argument to numeric: for an integer, Postgres answers in floating point"


def coerce(expr: Expr, to: DataType, *, implicit: bool = True) -> Expr:
    """Return the expression as a value of the type; a quoted text is read as one."""
    if isinstance(expr, Const) and expr.type is None:
        if expr.text is None:
            return Const(None, to)
        text = read_literal(expr.text, to)
        if text is None:
            raise Unresolved(f"{expr.text!r} is not {shown(to)}, or not in its plain form")
        if to.kind is Kind.NUMERIC:
            return Cast(Const(text, _type_of_number(text)), to, implicit)
        return Const(text, to)
    return expr if expr.type == to and implicit else Cast(expr, to, implicit)


def resolve(name: str, args: Sequence[Expr]) -> Expr:
    """Return the call of a function, its arguments made what it takes."""
    name = ALIASES.get(name, name)
    if name in SPECIAL:
        return SPECIAL[name](name, tuple(args))
    for wanted, result in FIXED.get(name, ()):
        if len(wanted) == len(args) and all(map(_fits, args, wanted)):
            return Apply(name, tuple(map(coerce, args, wanted)), result)
    raise no_function(name, args)


def no_function(name: str, args: Sequence[Expr], hint: str = "") -> Unresolved:
    known = name in FIXED or name in SPECIAL
    if not known and not hint:
        return Unresolved(f"the function {name} is not supported yet")
    types = ", ".join(shown(a.type) for a in args)
    return Unresolved(f"there is no function {name}({types}) here", hint)


def arithmetic(op: str, left: Expr, right: Expr) -> Expr:
    """Return + - * / % of numbers, and of dates where Postgres counts days."""
    a, b = left.type, right.type
    if a is None and b is None:
        raise no_operator(op, left, right)
    if a is not None and b is not None and Kind.DATE in (a.kind, b.kind):
        return _days(op, left, right)
    a, b = a or b, b or a
    assert a is not None and b is not None
    if a.kind not in NUMBERS or b.kind not in NUMBERS:
        raise no_operator(op, left, right)
    if Kind.NUMERIC not in (a.kind, b.kind):
        kind = max(a.kind, b.kind, key=NUMBERS.index)
        return Apply(
            op, (coerce(left, DataType(kind)), coerce(right, DataType(kind))), DataType(kind)
        )
    left, right = _numeric(left, a), _numeric(right, b)
    if op == "/" and None in (fixed_scale(left), fixed_scale(right)):
        raise Unresolved(
            "the digits of a quotient of numerics without precision are not known here",
            "cast both sides to numeric(p, s)",
        )
    return Apply(op, (left, right), _numeric_result(op, type_of(left), type_of(right)))


def no_operator(op: str, left: Expr, right: Expr) -> Unresolved:
    what = f"there is no operator {shown(left.type)} {op} {shown(right.type)} here"
    return Unresolved(what, "cast one of the two")


def same_type(what: str, values: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the values as their common type, as CASE, COALESCE, IN and comparisons do."""
    found = common_type(v.type for v in values)
    if found is None:
        types = ", ".join(dict.fromkeys(shown(v.type) for v in values if v.type is not None))
        raise Unresolved(f"the types of {what} do not go together: {types}", "cast one of them")
    if found.kind is Kind.NUMERIC:
        found = _widened(found, values)
    return tuple(coerce(v, found) for v in values)


def compared(what: str, values: Sequence[Expr]) -> tuple[Expr, ...]:
    """Return the values as one type whose values Spark compares as Postgres does."""
    found = same_type(what, values)
    if not compares_alike(type_of(found[0])):
        kind = shown(found[0].type)
        raise Unresolved(f"{kind} is not compared here as in Postgres", "cast both sides to text")
    return found


def as_text(expr: Expr, *, short_bool: bool = False) -> Expr:
    """Return the text Postgres prints; `concat` prints booleans as t and f, a cast in full."""
    data_type = expr.type
    if data_type is None or data_type.kind is Kind.TEXT:
        return coerce(expr, TEXT)
    if data_type.kind is Kind.NUMERIC and fixed_scale(expr) is None:
        raise Unresolved(
            "the text of a numeric whose digits after the point may vary is not known here",
            "cast it to numeric(p, s) or round it first",
        )
    if data_type.kind is Kind.BOOL and short_bool:
        return Apply("short_bool", (expr,), TEXT)
    return Cast(expr, TEXT)


def _type_of_number(text: str) -> DataType:
    whole, _, fraction = text.lstrip("-").partition(".")
    return numeric(len(whole), len(fraction))


def _fits(given: Expr, wanted: DataType) -> bool:
    return given.type is None or widens(given.type, wanted)


def _numeric(expr: Expr, data_type: DataType) -> Expr:
    if expr.type is None:
        assert isinstance(expr, Const)
        text = None if expr.text is None else read_literal(expr.text, data_type)
        wanted = data_type if text is None else _type_of_number(text)
        return coerce(expr, as_numeric(wanted))
    return coerce(expr, as_numeric(data_type))


def _numeric_result(op: str, a: DataType, b: DataType) -> DataType:
    scale = max(a.scale, b.scale)
    if op in ("+", "-"):
        return numeric(max(whole_digits(a), whole_digits(b)) + 1, scale)
    if op == "%":
        return numeric(max(whole_digits(a), whole_digits(b)), scale)
    if op == "*":
        if a.scale + b.scale > 28:
            raise Unresolved(
                f"a product of {a} and {b} has {a.scale + b.scale} digits after the point",
                "cast one of them to numeric(p, s) with fewer",
            )
        return numeric(whole_digits(a) + whole_digits(b), a.scale + b.scale)
    if scale > 18:
        raise Unresolved(f"a quotient of {a} and {b} is not supported yet", "use a smaller scale")
    return DataType(Kind.NUMERIC, 38, 18)


def _widened(found: DataType, values: Sequence[Expr]) -> DataType:
    """A quoted number among numerics brings its own digits."""
    for value in values:
        if isinstance(value, Const) and value.type is None and value.text is not None:
            text = read_literal(value.text, found)
            if text is not None:
                own = _type_of_number(text)
                whole = max(whole_digits(found), whole_digits(own))
                found = numeric(whole, max(found.scale, own.scale))
    return found


def _days(op: str, left: Expr, right: Expr) -> Expr:
    a, b = type_of(left).kind, type_of(right).kind
    small = (Kind.INT2, Kind.INT4)
    if a is b is Kind.DATE and op == "-":
        return Apply("days_between", (left, right), INT4)
    if a is Kind.DATE and b in small and op in "+-":
        return Apply(f"date{op}", (left, coerce(right, INT4)), DataType(Kind.DATE))
    if b is Kind.DATE and a in small and op == "+":
        return Apply("date+", (right, coerce(left, INT4)), DataType(Kind.DATE))
    raise no_operator(op, left, right)


def _abs(name: str, args: tuple[Expr, ...]) -> Expr:
    if len(args) != 1 or args[0].type is None or args[0].type.kind not in NUMBERS:
        raise no_function(name, args)
    return Apply(name, args, args[0].type)


def _round(name: str, args: tuple[Expr, ...]) -> Expr:
    """round, trunc, floor, ceil of a numeric; round with a constant number of digits."""
    if not 1 <= len(args) <= (2 if name == "round" else 1) or args[0].type is None:
        raise no_function(name, args)
    given = args[0].type
    if given.kind in NUMBERS and given.kind is not Kind.NUMERIC:
        if len(args) == 1:
            raise no_function(name, args, _FLOAT_HINT)
        args = (coerce(args[0], as_numeric(given)), args[1])
        given = as_numeric(given)
    if given.kind is not Kind.NUMERIC:
        raise no_function(name, args)
    places = Const("0", INT4) if len(args) == 1 else _constant_int(args[1])
    assert places.text is not None
    scale = max(0, int(places.text))
    if whole_digits(given) + 1 + scale > 38:
        scale = min(scale, given.scale)
    return Apply(name, (args[0], places), numeric(whole_digits(given) + 1, scale))


def _constant_int(expr: Expr) -> Const:
    match expr:
        case Apply("negate", (Const(str(text), _),), _):
            text = f"-{text}"
        case Const(str(text), _):
            pass
        case _:
            raise Unresolved("round takes a constant number of digits", "write it as a number")
    if not -38 <= int(text) <= 37:
        raise Unresolved(f"round to {text} digits is not supported yet", "use -38 to 37")
    return Const(text, INT4)


def _sign(name: str, args: tuple[Expr, ...]) -> Expr:
    if len(args) != 1 or args[0].type is None or args[0].type.kind is not Kind.NUMERIC:
        raise no_function(name, args, _FLOAT_HINT)
    return Apply(name, args, numeric(1, 0))


def _mod(name: str, args: tuple[Expr, ...]) -> Expr:
    if len(args) != 2:
        raise no_function(name, args)
    return arithmetic("%", *args)


def _concat(name: str, args: tuple[Expr, ...]) -> Expr:
    fixed = 1 if name == "concat_ws" else 0
    if len(args) <= fixed:
        raise no_function(name, args)
    texts = (as_text(arg, short_bool=True) for arg in args[fixed:])
    return Apply(name, (*(coerce(a, TEXT) for a in args[:fixed]), *texts), TEXT)


def _same(name: str, args: tuple[Expr, ...]) -> Expr:
    if not args:
        raise no_function(name, args)
    values = (same_type if name == "coalesce" else compared)(name, args)
    return Apply(name, values, type_of(values[0]))


def _nullif(name: str, args: tuple[Expr, ...]) -> Expr:
    if len(args) != 2:
        raise no_function(name, args)
    left, right = compared(name, args)
    first = coerce(args[0], type_of(left)) if args[0].type is None else args[0]
    return Apply(name, (first, left, right), type_of(first))


def _pad(name: str, args: tuple[Expr, ...]) -> Expr:
    wanted = (TEXT, INT4, TEXT)
    if not 2 <= len(args) <= 3 or not all(map(_fits, args, wanted)):
        raise no_function(name, args)
    filled = args if len(args) == 3 else (*args, Const(" ", TEXT))
    return Apply(name, tuple(map(coerce, filled, wanted)), TEXT)


def _date_trunc(name: str, args: tuple[Expr, ...]) -> Expr:
    if len(args) != 2 or args[1].type is None or args[1].type.kind not in TIMES:
        raise no_function(name, args)
    unit = args[0]
    if not isinstance(unit, Const) or (unit.text or "").lower() not in UNITS:
        raise Unresolved("date_trunc takes one of these units", ", ".join(UNITS))
    zoned = args[1].type.kind is not Kind.TIMESTAMP
    to = TIMESTAMPTZ if zoned else TIMESTAMP
    # Spark knows each by its singular.
    word = (unit.text or "").lower().removesuffix("s")
    return Apply(name, (Const(word, TEXT), coerce(args[1], to)), to)


def _extract(name: str, args: tuple[Expr, ...]) -> Expr:
    field, value = args
    if value.type is None or value.type.kind not in TIMES:
        raise no_function(name, args)
    word = (field.text or "").lower() if isinstance(field, Const) else ""
    timed = value.type.kind is not Kind.DATE
    known = (*_DAY_FIELDS, *(_TIME_FIELDS if timed else ()))
    if word not in known:
        what = f"extract({word} from {shown(value.type)}) is not supported yet"
        raise Unresolved(what, f"there are: {', '.join(known)}")
    scale = 6 if word in ("second", "epoch") else 0
    return Apply(f"extract_{word}", (value,), numeric(12, scale))


SPECIAL: Mapping[str, Callable[[str, tuple[Expr, ...]], Expr]] = {
    "abs": _abs,
    "round": _round,
    "trunc": _round,
    "floor": _round,
    "ceil": _round,
    "sign": _sign,
    "mod": _mod,
    "concat": _concat,
    "concat_ws": _concat,
    "coalesce": _same,
    "greatest": _same,
    "least": _same,
    "nullif": _nullif,
    "lpad": _pad,
    "rpad": _pad,
    "date_trunc": _date_trunc,
    "extract": _extract,
}
