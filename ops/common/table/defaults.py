"""What rows have in a column that was added after them.

Spark.
"""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from ops.common.columns import field
from ops.common.schema import Column, Kind, Schema, quote, spark_type


def later_defaults(schema: Schema, version: int) -> tuple[Column, ...]:
    """Return the columns with a default that rows written by `version` do not have."""
    return tuple(c for c in schema.columns if c.added > version and c.default is not None)


def default(column: Column) -> SparkColumn:
    return F.expr(default_sql(column))


def default_sql(column: Column) -> str:
    """Return a column's default as Spark SQL; it is stored as the text Postgres prints."""
    assert column.default is not None
    text = column.default.replace("\\", "\\\\").replace("'", "\\'")
    if column.type.kind is Kind.BYTEA:
        return f"unhex('{column.default.removeprefix(chr(92) + 'x')}')"
    return f"CAST('{text}' AS {spark_type(column.type)})"


def with_defaults(image: str, later: Sequence[Column], schema: Schema) -> SparkColumn:
    """Return the row struct `image` with defaults in place of what it lacks; NULL stays NULL."""
    given = {c.name: default(c) for c in later}
    values = [given.get(n, field(image, n)).alias(n) for n in schema.names]
    return F.when(F.col(image).isNotNull(), F.struct(*values))


def add_columns_sql(uri: str, columns: Sequence[Column]) -> str:
    added = ", ".join(f"{quote(c.name)} {spark_type(c.type)}" for c in columns)
    return f"ALTER TABLE delta.`{uri}` ADD COLUMNS ({added})"
