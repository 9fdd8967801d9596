"""Column twin of `mark_cdc_chunk`: has the reader passed a row's key?

    (a, b) <= (x, y)      a < x  or  a = x and b <= y

Only for keys whose order Spark shares: integers, dates, uuids, and text that the source compares by
its bytes. Whole rows are judged here, as the log and the pages hold them: an update that moves a
key is a delete of one and an insert of another there.

Spark.
"""

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from ops.common.columns import field
from ops.common.schema import INTEGERS, TEXT, Column, DataType, Kind, spark_type

SHARED = INTEGERS | {Kind.DATE}
UUID = DataType(Kind.OTHER, name="uuid")


def is_passed(
    columns: Sequence[Column], position: Sequence[str] | None, *, path: str = ""
) -> SparkColumn:
    """Return whether the key in `columns` is at most `position`, the text of the last key read."""
    if position is None:
        return F.lit(False)
    passed = F.lit(True)
    for column, text in reversed(list(zip(columns, position, strict=True))):
        value, bound = field(path, column.name), F.lit(text).cast(spark_type(column.type))
        passed = (value < bound) | ((value == bound) & passed)
    return passed


def shares_order(columns: Sequence[Column], bytewise: Sequence[bool]) -> bool:
    """Say whether Spark puts such keys into the order in which the source does."""
    return all(
        c.type.kind in SHARED or c.type == UUID or (c.type == TEXT and by_bytes)
        for c, by_bytes in zip(columns, bytewise, strict=True)
    )
