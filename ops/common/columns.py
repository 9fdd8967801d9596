"""Column twins of the laws over keys: vnode, and equality in which NULL equals NULL.

Spark.
"""

from functools import reduce
from typing import Any, assert_never

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from ops.common.schema import Column, Kind, quote
from ops.common.table.key_range import KeyRange
from ops.common.vnode import END, NULL_PART


def field(path: str, name: str) -> SparkColumn:
    """Return the column `name` of a struct column, or a top-level column if `path` is empty."""
    return F.col(f"{path}.{quote(name)}" if path else quote(name))


def vnode_column(columns: tuple[Column, ...], count: int, *, path: str = "") -> SparkColumn:
    """Return the vnode of a key. Same law as `ops.common.vnode.vnode_of`."""
    text = F.concat(
        *(F.concat(_part(field(path, c.name), c), F.lit(END)) for c in columns), F.lit("")
    )
    return (F.crc32(text.cast("binary")) % count).cast("int")


def same_key(left: str, right: str, columns: tuple[Column, ...]) -> SparkColumn:
    """Return the condition under which two keys are the same; NULL equals NULL.

    Each is a struct column, or the columns themselves if its path is empty. Where there is no NULL
    the condition does not speak of it: Spark then hashes a single integer as what it is.
    """

    def same(c: Column) -> SparkColumn:
        one, other = field(left, c.name), field(right, c.name)
        return one.eqNullSafe(other) if c.nullable else one == other

    return reduce(SparkColumn.__and__, map(same, columns))


def key_struct(columns: tuple[Column, ...], *, path: str = "") -> SparkColumn:
    return F.struct(*(field(path, c.name).alias(c.name) for c in columns))


def within(value: SparkColumn, key_range: KeyRange, column: Column) -> SparkColumn:
    """Return whether a first key part lies in a range. Same order as `key_range`'s."""
    low, high = key_range
    return (value >= _literal(low, column)) & (value <= _literal(high, column))


def _literal(value: Any, column: Column) -> SparkColumn:
    if column.type.kind is Kind.DATE:
        # Not as a date of Python's, which knows neither infinity nor years before 1.
        return F.date_from_unix_date(F.lit(value))
    return F.lit(value)


def _part(value: SparkColumn, column: Column) -> SparkColumn:
    return F.coalesce(_text(value, column), F.lit(NULL_PART))


def _text(value: SparkColumn, column: Column) -> SparkColumn:
    match column.type.kind:
        case Kind.INT2 | Kind.INT4 | Kind.INT8 | Kind.BOOL | Kind.NUMERIC:
            return value.cast("string")
        case Kind.TEXT | Kind.OTHER:
            return value
        case Kind.FLOAT4 | Kind.FLOAT8:
            return F.when(value.isNotNull(), F.hash(value.cast("double"))).cast("string")
        case Kind.BYTEA:
            return F.hex(value)
        case Kind.DATE:
            return F.unix_date(value).cast("string")
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return F.unix_micros(value.cast("timestamp")).cast("string")
        case _:
            assert_never(column.type.kind)
