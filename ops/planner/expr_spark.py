"""A typed expression as Spark SQL that computes what Postgres computes.

It counts on ANSI mode (an overflow or a bad cast is an error), time zone UTC and decimal results
that keep their scale. Where the two engines differ, the difference is written out here: a cast from
numeric to an integer rounds, `/` of integers truncates, a quotient of numerics is rounded to the
digits Postgres gives it, minus does not go through Spark's, which rounds to 34 digits.

Pure.
"""

from collections.abc import Callable
from typing import assert_never

from ops.common.schema import DataType, Kind, spark_type
from ops.planner.expr import Apply, Case, Cast, Const, Expr, Ref, fixed_scale, type_of
from ops.planner.expr_types import NUMBERS
from ops.planner.quotient import quotient_sql

Column = Callable[[str], str]

_INFIX = {
    "+": "+",
    "-": "-",
    "*": "*",
    "%": "%",
    "=": "=",
    "<>": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "and": "AND",
    "or": "OR",
    "is_not_distinct": "<=>",
}
_TEMPLATES = {
    "not": "(NOT {0})",
    "is_null": "({0} IS NULL)",
    "is_true": "({0} IS TRUE)",
    "is_false": "({0} IS FALSE)",
    "is_distinct": "(NOT ({0} <=> {1}))",
    "like": "({0} LIKE {1})",
    "ilike": "({0} ILIKE {1})",
    "short_bool": "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END",
    "lower": "lower({0})",
    "upper": "upper({0})",
    "length": "char_length({0})",
    "octet_length": "octet_length({0})",
    "reverse": "reverse({0})",
    "md5": "md5(CAST({0} AS BINARY))",
    "ascii": "ascii({0})",
    "replace": "replace({0}, {1}, {2})",
    "strpos": "instr({0}, {1})",
    "left": "CASE WHEN {1} < 0 THEN substring({0}, 1, greatest(char_length({0}) + {1}, 0)) "
    "ELSE left({0}, {1}) END",
    "right": "CASE WHEN {1} < 0 THEN substring({0}, 1 - {1}) ELSE right({0}, {1}) END",
    "repeat": "repeat({0}, {1})",
    "lpad": "lpad({0}, {1}, {2})",
    "rpad": "rpad({0}, {1}, {2})",
    "split_part": "split_part({0}, {1}, {2})",
    "starts_with": "startswith({0}, {1})",
    "days_between": "datediff({0}, {1})",
    "date+": "date_add({0}, {1})",
    "date-": "date_sub({0}, {1})",
    "nullif": "CASE WHEN {1} = {2} THEN NULL ELSE {0} END",
    "sign": "CASE WHEN {0} > 0 THEN 1 WHEN {0} < 0 THEN -1 WHEN {0} = 0 THEN 0 END",
    "floor": "floor({0})",
    "ceil": "ceil({0})",
    "trunc": "CASE WHEN {0} < 0 THEN ceil({0}) ELSE floor({0}) END",
    "extract_year": "year({0})",
    "extract_isoyear": "extract(YEAROFWEEK FROM {0})",
    "extract_quarter": "quarter({0})",
    "extract_month": "month({0})",
    "extract_week": "weekofyear({0})",
    "extract_day": "day({0})",
    "extract_dow": "(dayofweek({0}) - 1)",
    "extract_isodow": "(weekday({0}) + 1)",
    "extract_doy": "dayofyear({0})",
    "extract_hour": "hour({0})",
    "extract_minute": "minute({0})",
    "extract_second": "extract(SECOND FROM {0})",
    "extract_epoch": "(CAST(unix_micros(CAST({0} AS TIMESTAMP)) AS DECIMAL(20,0)) "
    "* CAST(0.000001 AS DECIMAL(6,6)))",
}
_TRIMS = {"btrim": "BOTH", "ltrim": "LEADING", "rtrim": "TRAILING"}


def to_spark(expr: Expr, column: Column) -> str:
    """Return Spark SQL text; `column` gives the text of a column by its name."""
    match expr:
        case Ref(name):
            return column(name)
        case Const():
            return _constant(expr)
        case Cast(operand, to, _):
            return _cast(to_spark(operand, column), type_of(operand), to)
        case Case(branches, otherwise, to):
            whens = " ".join(
                f"WHEN {to_spark(when, column)} THEN {_as(to_spark(then, column), to)}"
                for when, then in branches
            )
            return f"CASE {whens} ELSE {_as(to_spark(otherwise, column), to)} END"
        case Apply():
            return _apply(expr, [to_spark(arg, column) for arg in expr.args])
        case _:
            assert_never(expr)


def text_literal(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"


def _constant(expr: Const) -> str:
    data_type = type_of(expr)
    if expr.text is None:
        return f"CAST(NULL AS {spark_type(data_type)})"
    if data_type.kind is Kind.TEXT:
        return text_literal(expr.text)
    if data_type.kind is Kind.BOOL:
        return expr.text.upper()
    return _as(text_literal(expr.text), data_type)


def _as(sql: str, data_type: DataType) -> str:
    return f"CAST({sql} AS {spark_type(data_type)})"


def _apply(call: Apply, args: list[str]) -> str:
    op, to = call.op, call.type
    match op:
        case "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        case "/":
            return _divide(call, args)
        case "negate":
            return _as(f"({_as('0', to)} - {args[0]})", to)
        case "abs":
            return _as(
                f"CASE WHEN {args[0]} < 0 THEN {_as('0', to)} - {args[0]} ELSE {args[0]} END", to
            )
        case "round":
            return _as(f"round({args[0]}, {_places(call.args[1])})", to)
        case "coalesce" | "greatest" | "least":
            return args[0] if len(args) == 1 else f"{op}({', '.join(args)})"
        case "||":
            return f"concat({', '.join(args)})"
        case "concat":
            return f"concat({', '.join(f'''coalesce({arg}, '')''' for arg in args)})"
        case "concat_ws":
            return f"concat_ws({', '.join(args)})"
        case "substring":
            return _substring(args)
        case "btrim" | "ltrim" | "rtrim":
            characters = args[1] if len(args) == 2 else "' '"
            return f"trim({_TRIMS[op]} {characters} FROM {args[0]})"
        case "date_trunc":
            return _as(f"date_trunc({args[0]}, CAST({args[1]} AS TIMESTAMP))", to)
    if op in _INFIX:
        sql = f"({args[0]} {_INFIX[op]} {args[1]})"
        return _as(sql, to) if to.kind in NUMBERS else sql
    sql = f"({_TEMPLATES[op].format(*args)})"
    return _as(sql, to) if to.kind in NUMBERS else sql


def _divide(call: Apply, args: list[str]) -> str:
    if call.type.kind is Kind.NUMERIC:
        left, right = call.args
        digits = max(fixed_scale(left) or 0, fixed_scale(right) or 0)
        scale = max(type_of(left).scale, type_of(right).scale)
        return quotient_sql(args[0], args[1], scale=scale, digits=digits)
    return _as(f"({args[0]} div {args[1]})", call.type)


def _places(expr: Expr) -> str:
    assert isinstance(expr, Const) and expr.text is not None
    return expr.text


def _substring(args: list[str]) -> str:
    text, start = args[0], args[1]
    if len(args) == 2:
        return f"substring({text}, greatest({start}, 1))"
    end = f"(CAST({start} AS BIGINT) + {args[2]})"
    first = f"greatest(CAST({start} AS BIGINT), 1L)"
    length = f"CAST(least(greatest({end} - {first}, 0L), 2147483647L) AS INT)"
    negative = "raise_error('negative substring length not allowed')"
    return (
        f"CASE WHEN {args[2]} < 0 AND {text} IS NOT NULL AND {start} IS NOT NULL THEN {negative} "
        f"ELSE substring({text}, CAST({first} AS INT), {length}) END"
    )


def _cast(sql: str, given: DataType, to: DataType) -> str:
    if given == to:
        return sql
    if given.kind is Kind.NUMERIC and to.kind in NUMBERS and to.kind is not Kind.NUMERIC:
        return _as(f"round({sql})", to)
    if to.kind is Kind.TEXT:
        return _text(sql, given)
    return _as(sql, to)


def _text(sql: str, given: DataType) -> str:
    """Return the text Postgres prints; a year it would print otherwise is an error."""
    plain = f"CAST({sql} AS STRING)"
    if given.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return plain
    if given.kind is Kind.TIMESTAMPTZ:
        plain = f"concat({plain}, '+00')"
    error = "raise_error('the text of a date before year 1 or after year 9999 is not supported')"
    return f"CASE WHEN year({sql}) NOT BETWEEN 1 AND 9999 THEN {error} ELSE {plain} END"
