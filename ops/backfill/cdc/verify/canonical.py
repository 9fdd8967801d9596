"""One text of a row that Postgres and Spark write alike, and the hash that is made of it.

    NULL                    N
    numbers, days, times    their digits; days and microseconds count from 1970-01-01
    floats                  seventeen digits and an exponent; bytes their hexadecimal digits
    texts                   their length in characters, `:`, themselves
    row                     its columns' texts, each after \\x1f

The hash is the first 60 bits of the text's md5; of many rows their number and the sum of their
hashes are compared, so that order does not matter. A column twin in two SQL dialects: each type has
both side by side, and a test lets a real Postgres and a real Spark write every value. Where they
differ all the same (5e-324, which Java writes 4.9e-324; other floats before Java 19), rows are read
and compared by value.

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from ops.common.schema import DAY_INFINITY, MICRO_INFINITY, Column, DataType, Kind, quote

ARGUMENTS = 90
FLOAT_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Canonical:
    """SQL expressions over a column, which stands for `{}`; both give NULL for NULL."""

    postgres: str
    spark: str


def canonical(data_type: DataType) -> Canonical:
    match data_type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.BOOL:
            return Canonical("{}::text", "CAST({} AS STRING)")
        case Kind.FLOAT4 | Kind.FLOAT8:
            # As few digits as tell a float from all others, then zeros; 0 and -0 are equal.
            digits = f"to_char({{}}::float8::text::numeric, '9.{'9' * FLOAT_DIGITS}EEEE')"
            return Canonical(
                "CASE WHEN {} IN ('NaN', 'Infinity', '-Infinity') THEN {}::text "
                f"ELSE ltrim({digits}) END",
                "CASE WHEN {} IS NOT NULL THEN "
                f"format_string('%.{FLOAT_DIGITS}e', CAST({{}} AS DOUBLE) + 0D) END",
            )
        case Kind.TEXT | Kind.OTHER:
            # As pages print it: a cast takes the blanks of char(n) away, and a composite whose
            # fields are all NULL is not NULL itself.
            printed = "pg_catalog.format('%s', {})"
            return Canonical(
                "CASE WHEN {} IS DISTINCT FROM NULL "
                f"THEN concat(length({printed}), ':', {printed}) END",
                "concat(length({}), ':', {})",
            )
        case Kind.BYTEA:
            return Canonical("encode({}, 'hex')", "lower(hex({}))")
        case Kind.NUMERIC:
            scale = data_type.scale
            # Digits beyond the scale have no place in the lake: rounded they would look equal.
            exact = f"CASE WHEN scale({{}}) > {scale} THEN {{}} ELSE round({{}}, {scale}) END"
            return Canonical(f"({exact})::text", "CAST({} AS STRING)")
        case Kind.DATE:
            return Canonical(
                f"CASE {{}} WHEN 'infinity' THEN '{DAY_INFINITY}' "
                f"WHEN '-infinity' THEN '{-DAY_INFINITY - 1}' "
                "ELSE ({} - '1970-01-01'::date)::text END",
                "CAST(unix_date({}) AS STRING)",
            )
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return Canonical(
                f"CASE {{}} WHEN 'infinity' THEN '{MICRO_INFINITY}' "
                f"WHEN '-infinity' THEN '{-MICRO_INFINITY - 1}' "
                "ELSE trunc(extract(epoch FROM {}) * 1000000)::text END",
                "CAST(unix_micros(CAST({} AS TIMESTAMP)) AS STRING)",
            )
        case _:
            assert_never(data_type.kind)


def postgres_hash(columns: Sequence[Column]) -> str:
    """Return the hash of a row as an SQL expression of Postgres."""
    parts = [
        f"coalesce({canonical(c.type).postgres.replace('{}', _identifier(c.name))}, 'N')"
        for c in columns
    ]
    # A function takes a hundred arguments at most.
    many = [parts[i : i + ARGUMENTS] for i in range(0, len(parts), ARGUMENTS)]
    joined = [f"concat_ws(chr(31), {', '.join(some)})" for some in many]
    text = joined[0] if len(joined) == 1 else f"concat_ws(chr(31), {', '.join(joined)})"
    return f"('x' || substr(md5(convert_to({text}, 'UTF8')), 1, 15))::bit(60)::bigint"


def spark_hash(columns: Sequence[Column]) -> str:
    """Return the hash of a row as an SQL expression of Spark."""
    parts = [
        f"coalesce({canonical(c.type).spark.replace('{}', quote(c.name))}, 'N')" for c in columns
    ]
    text = f"concat_ws(char(31), {', '.join(parts)})"
    return f"CAST(conv(substr(md5(CAST({text} AS BINARY)), 1, 15), 16, 10) AS BIGINT)"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
