"""From sqlglot's tree to a typed expression: names, operators and constants.

What is not known here is refused by name with its place. sqlglot binds a few operators tighter or
looser than Postgres (`a = b IS NULL`); where the two would differ, parentheses are asked for.

Pure.
"""

from collections.abc import Callable, Mapping

from sqlglot import exp
from sqlglot.expressions import DType

from ops.common.schema import BOOL, NUMERIC, TEXT, DataType, Kind
from ops.planner.expr import Apply, Case, Cast, Const, Expr, type_of
from ops.planner.expr_functions import (
    Unresolved,
    arithmetic,
    as_text,
    coerce,
    compared,
    no_operator,
    resolve,
    same_type,
)
from ops.planner.expr_types import NUMBERS, can_cast, number_type, shown

Refuse = Callable[[str, exp.Expr, str], Exception]
Custom = Callable[["Binder", exp.Expr], Expr | None]

_ARITHMETIC: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "is_not_distinct",
    exp.NullSafeNEQ: "is_distinct",
}
_TYPES = {
    DType.SMALLINT: Kind.INT2,
    DType.INT: Kind.INT4,
    DType.BIGINT: Kind.INT8,
    DType.TEXT: Kind.TEXT,
    DType.BOOLEAN: Kind.BOOL,
    DType.DATE: Kind.DATE,
    DType.TIMESTAMP: Kind.TIMESTAMP,
    DType.TIMESTAMPNTZ: Kind.TIMESTAMP,
    DType.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
}
_FUNCTIONS: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.MD5: ("md5", ("this",)),
    exp.Ascii: ("ascii", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.Ceil: ("ceil", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Trunc: ("trunc", ("this", "decimals")),
    exp.Sign: ("sign", ("this",)),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.Concat: ("concat", ("expressions",)),
    exp.ConcatWs: ("concat_ws", ("expressions",)),
}
_HARMLESS = frozenset({"typed", "safe", "coalesce", "ignore_nulls", "big_int", "nested"})
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "btrim", "": "btrim"}


class Binder:
    """Binds trees against one row: `column` finds a name, `custom` may know a tree first."""

    def __init__(
        self,
        column: Callable[[exp.Column], Expr],
        refuse: Refuse,
        custom: Custom = lambda binder, tree: None,
    ) -> None:
        self._column, self._refuse, self._custom = column, refuse, custom

    def typed(self, tree: exp.Expr) -> Expr:
        """Return the expression; a quoted text that nothing gave a type is text."""
        found = self.bind(tree)
        return coerce(found, TEXT) if found.type is None else found

    def condition(self, tree: exp.Expr, clause: str) -> Expr:
        found = self.bind(tree)
        if found.type is not None and found.type.kind is not Kind.BOOL:
            raise self._refuse(f"{clause} must be boolean, not {shown(found.type)}", tree, "")
        return self._resolved(tree, lambda: coerce(found, BOOL))

    def bind(self, tree: exp.Expr) -> Expr:
        known = self._custom(self, tree)
        return known if known is not None else self._resolved(tree, lambda: self._bind(tree))

    def _resolved(self, tree: exp.Expr, how: Callable[[], Expr]) -> Expr:
        problem: Unresolved | None = None
        try:
            return how()
        except Unresolved as error:
            problem = error
        raise self._refuse(problem.what, tree, problem.hint)

    def _bind(self, tree: exp.Expr) -> Expr:
        match tree:
            case exp.Paren():
                return self.bind(tree.this)
            case exp.Column(this=exp.Identifier()):
                return self._column(tree)
            case exp.Literal():
                return self._literal(tree)
            case exp.Null():
                return Const(None, None)
            case exp.Boolean():
                return Const("true" if tree.this else "false", BOOL)
            case exp.And() | exp.Or():
                self._only(tree, "this", "expression")
                word = "and" if isinstance(tree, exp.And) else "or"
                return Apply(word, (self._bool(tree.this), self._bool(tree.expression)), BOOL)
            case exp.Not():
                return Apply("not", (self._bool(tree.this),), BOOL)
            case exp.Neg():
                return self._negate(self.bind(tree.this))
            case exp.Is():
                return self._is(tree)
            case exp.In():
                self._only(tree, "this", "expressions")
                values = [self.bind(v) for v in (tree.this, *tree.expressions)]
                return Apply("in", compared("IN", values), BOOL)
            case exp.Between():
                return self._between(tree)
            case exp.Like() | exp.ILike():
                return self._like(tree, "\\")
            case exp.Escape(this=exp.Like() | exp.ILike()):
                return self._like(tree.this, self._quoted(tree.expression))
            case exp.Case():
                return self._case(tree)
            case exp.Cast():
                return self._cast(tree)
            case exp.DPipe():
                return self._joined(self.bind(tree.this), self.bind(tree.expression))
            case exp.Trim() | exp.Pad() | exp.TimestampTrunc() | exp.Extract() | exp.Anonymous():
                return self._odd_function(tree)
        if type(tree) in _ARITHMETIC:
            self._only(tree, "this", "expression")
            return arithmetic(
                _ARITHMETIC[type(tree)], self.bind(tree.this), self.bind(tree.expression)
            )
        if type(tree) in _COMPARISONS:
            return self._comparison(tree)
        if type(tree) in _FUNCTIONS:
            name, order = _FUNCTIONS[type(tree)]
            return resolve(name, [self.bind(arg) for arg in self._args(tree, order)])
        raise self._refuse(f"{_describe(tree)} is not supported yet", tree, "")

    def _args(self, tree: exp.Expr, order: tuple[str, ...]) -> list[exp.Expr]:
        self._only(tree, *order)
        found: list[exp.Expr] = []
        for arg in order:
            value = tree.args.get(arg)
            if isinstance(value, list):
                found.extend(value)
            elif value is not None:
                found.append(value)
        return found

    def _only(self, tree: exp.Expr, *allowed: str) -> None:
        for arg, value in tree.args.items():
            if value and arg not in allowed and arg not in _HARMLESS:
                what = f"{arg.strip('_').upper()} in {_describe(tree)} is not supported yet"
                raise self._refuse(what, tree, "")

    def _literal(self, tree: exp.Expr) -> Expr:
        if tree.is_string:
            return Const(tree.name, None)
        found = number_type(tree.name)
        if found is None:
            raise Unresolved(f"the number {tree.name} does not fit into 38 digits")
        return Const(*found)

    def _bool(self, tree: exp.Expr) -> Expr:
        return self.condition(tree, "what AND, OR, NOT and IS TRUE take")

    def _negate(self, value: Expr) -> Expr:
        if value.type is None or value.type.kind not in NUMBERS:
            raise Unresolved(f"there is no minus for {shown(value.type)}", "cast it to a number")
        if isinstance(value, Const) and value.text and value.type.kind is not Kind.NUMERIC:
            return Const(str(-int(value.text)), value.type)
        return Apply("negate", (value,), value.type)

    def _is(self, tree: exp.Is) -> Expr:
        match tree.expression:
            case exp.Null():
                return Apply("is_null", (self.typed(tree.this),), BOOL)
            case exp.Boolean(this=wanted):
                return Apply(f"is_{str(wanted).lower()}", (self._bool(tree.this),), BOOL)
        raise self._refuse(f"IS {tree.expression.sql()} is not supported yet", tree, "")

    def _comparison(self, tree: exp.Expr) -> Expr:
        op = _COMPARISONS[type(tree)]
        self._only(tree, "this", "expression")
        for side in (tree.this, tree.expression):
            inner = side.this if isinstance(side, exp.Not) else side
            if type(inner) in _COMPARISONS or isinstance(inner, exp.Is):
                what = "a comparison beside another comparison or IS"
                raise self._refuse(f"{what} needs parentheses", tree, "write (a = b) IS NULL")
        values = [self.bind(tree.this), self.bind(tree.expression)]
        return Apply(op, compared(f"the two sides of {_shown_op(op)}", values), BOOL)

    def _between(self, tree: exp.Expr) -> Expr:
        self._only(tree, "this", "low", "high", "symmetric")
        value, low, high = (self.bind(tree.args[a]) for a in ("this", "low", "high"))
        above = Apply(">=", compared("BETWEEN", (value, low)), BOOL)
        below = Apply("<=", compared("BETWEEN", (value, high)), BOOL)
        inside = Apply("and", (above, below), BOOL)
        if not tree.args.get("symmetric"):
            return inside
        up = Apply(">=", compared("BETWEEN", (value, high)), BOOL)
        down = Apply("<=", compared("BETWEEN", (value, low)), BOOL)
        return Apply("or", (inside, Apply("and", (up, down), BOOL)), BOOL)

    def _like(self, tree: exp.Expr, escape: str) -> Expr:
        self._only(tree, "this", "expression", "negate")
        pattern = _spark_pattern(self._quoted(tree.expression), escape)
        op = "ilike" if isinstance(tree, exp.ILike) else "like"
        value = self.bind(tree.this)
        if value.type is not None and value.type.kind is not Kind.TEXT:
            raise no_operator("LIKE", value, Const("", TEXT))
        found = Apply(op, (coerce(value, TEXT), Const(pattern, TEXT)), BOOL)
        return Apply("not", (found,), BOOL) if tree.args.get("negate") else found

    def _quoted(self, tree: exp.Expr) -> str:
        if not isinstance(tree, exp.Literal) or not tree.is_string:
            raise self._refuse("LIKE takes a quoted pattern only", tree, "")
        return str(tree.name)

    def _case(self, tree: exp.Expr) -> Expr:
        subject = tree.args.get("this")
        whens: list[Expr] = []
        for branch in tree.args["ifs"]:
            if subject is None:
                whens.append(self.condition(branch.this, "what CASE WHEN takes"))
            else:
                sides = (self.bind(subject), self.bind(branch.this))
                whens.append(Apply("=", compared("CASE", sides), BOOL))
        thens = [self.bind(branch.args["true"]) for branch in tree.args["ifs"]]
        default = tree.args.get("default")
        other = Const(None, None) if default is None else self.bind(default)
        *values, otherwise = same_type("CASE", [*thens, other])
        return Case(tuple(zip(whens, values, strict=True)), otherwise, type_of(otherwise))

    def _cast(self, tree: exp.Expr) -> Expr:
        self._only(tree, "this", "to")
        to, value = self._type(tree.args["to"]), self.bind(tree.this)
        if value.type is None:
            return coerce(value, to, implicit=False)
        if not can_cast(value.type, to):
            what = f"a cast from {shown(value.type)} to {shown(to)} is not supported yet"
            raise Unresolved(what)
        if to.kind is Kind.TEXT:
            return as_text(value)
        if to == NUMERIC and not tree.args["to"].expressions:
            return self._bare_numeric(value)
        return Cast(value, to)

    def _bare_numeric(self, value: Expr) -> Expr:
        """`::numeric` keeps every digit there is."""
        given = type_of(value)
        if given.kind is Kind.NUMERIC:
            return value
        if given.kind in NUMBERS:
            return arithmetic("+", value, Const("0", DataType(Kind.NUMERIC, 1, 0)))
        return Cast(value, NUMERIC)

    def _type(self, tree: exp.Expr) -> DataType:
        if tree.this is DType.DECIMAL and not tree.args.get("nested"):
            sizes = [int(size.name) for size in tree.expressions]
            precision, scale = (*sizes, 0)[:2] if sizes else (NUMERIC.precision, NUMERIC.scale)
            if 1 <= precision <= 38 and 0 <= scale <= precision:
                return DataType(Kind.NUMERIC, precision, scale)
            raise Unresolved(f"numeric({precision},{scale}) does not fit into 38 digits")
        varchar = tree.this is DType.VARCHAR and not tree.expressions
        if varchar or (tree.this in _TYPES and not tree.expressions):
            return DataType(Kind.TEXT if varchar else _TYPES[tree.this])
        raise self._refuse(
            f"the type {tree.sql(dialect='postgres')} is not supported yet", tree, ""
        )

    def _joined(self, left: Expr, right: Expr) -> Expr:
        kinds = [e.type.kind for e in (left, right) if e.type is not None]
        if kinds and Kind.TEXT not in kinds and len(kinds) == 2:
            raise no_operator("||", left, right)
        return Apply("||", (as_text(left), as_text(right)), TEXT)

    def _odd_function(self, tree: exp.Expr) -> Expr:
        match tree:
            case exp.Trim():
                self._only(tree, "this", "expression", "position")
                name = _TRIMS[str(tree.args.get("position") or "")]
                args = [tree.this, *filter(None, [tree.args.get("expression")])]
            case exp.Pad():
                name = "lpad" if tree.args.get("is_left") else "rpad"
                args = [tree.this, tree.expression, *filter(None, [tree.args.get("fill_pattern")])]
            case exp.TimestampTrunc():
                self._only(tree, "this", "unit")
                unit = Const(tree.args["unit"].name, TEXT)
                return resolve("date_trunc", [unit, self.bind(tree.this)])
            case exp.Extract():
                field = Const(tree.this.name, TEXT)
                return resolve("extract", [field, self.bind(tree.expression)])
            case _:
                name, args = tree.name.lower(), list(tree.expressions)
        return resolve(name, [self.bind(arg) for arg in args])


def _shown_op(op: str) -> str:
    return {"is_distinct": "IS DISTINCT FROM", "is_not_distinct": "IS NOT DISTINCT FROM"}.get(
        op, op
    )


def _describe(tree: exp.Expr) -> str:
    match tree:
        case exp.Star() | exp.Column(this=exp.Star()):
            return "*"
        case exp.Subquery() | exp.Select() | exp.Exists():
            return "a subquery in an expression"
        case exp.Window():
            return "a window function (OVER)"
        case exp.WithinGroup():
            return "WITHIN GROUP"
        case exp.Interval():
            return "an interval"
        case exp.Anonymous():
            return f"the function {tree.name.lower()}"
        case exp.Func():
            return f"the function {tree.sql_name().lower()}"
    return f"the expression {tree.sql(dialect='postgres')}"


def _spark_pattern(pattern: str, escape: str) -> str:
    """Return a LIKE pattern whose escape is a backslash before %, _ and \\ and nothing else."""
    if len(escape) > 1:
        raise Unresolved("ESCAPE takes one character or none")
    made, index = "", 0
    while index < len(pattern):
        char = pattern[index]
        if escape and char == escape:
            index += 1
            if index == len(pattern):
                raise Unresolved("a LIKE pattern must not end with its escape character")
            char = pattern[index]
            made += f"\\{char}" if char in "%_\\" else char
        else:
            made += "\\\\" if char == "\\" else char
        index += 1
    return made
