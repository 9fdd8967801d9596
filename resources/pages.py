"""Pages of a source's table, read by Spark tasks: each reads one key range and writes one file.

The task connects to the source itself and writes to the lake itself; only what it did comes back.
It needs pyarrow, the ADBC driver and this project on the worker's path.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from resources.errors import ConfigError
from resources.lake import Lake
from resources.postgres_link import Link, SourceUnreachable
from resources.postgres_page import page_dsn, page_query, read_page

RESULT = "rows BIGINT, bytes BIGINT, last_key BIGINT, seconds DOUBLE, error STRING, passing BOOLEAN"


class PageRead(NamedTuple):
    rows: int
    bytes: int
    last_key: int | None
    seconds: float


@dataclass(frozen=True)
class SparkPages:
    """`columns` are (name, our type) pairs; `key` is one of them and an integer."""

    spark: SparkSession
    link: Link
    lake: Lake
    schema: str
    table: str
    columns: Sequence[tuple[str, str]]
    key: str

    def read(self, *, lower: int | None, upper: int | None, limit: int, path: str) -> PageRead:
        """Read up to `limit` rows of keys in [lower, upper), in key order, into one file."""
        query = page_query(
            self.schema,
            self.table,
            self.columns,
            self.key,
            lower_inclusive=lower,
            upper_exclusive=upper,
            limit=limit,
        )
        task = PageTask(page_dsn(self.link), query, list(self.columns), self.key, self.lake, path)
        frame = self.spark.range(0, 1, numPartitions=1).mapInArrow(task, RESULT)
        row = frame.toArrow().to_pylist()[0]
        if row["error"] is not None:
            raise SourceUnreachable(row["error"]) if row["passing"] else PageRefused(row["error"])
        return PageRead(row["rows"], row["bytes"], row["last_key"], row["seconds"])


class PageRefused(ConfigError):
    """A page holds what its table cannot keep; the message names the column."""


class PageTask:
    """What a Spark task runs. It holds passwords, so it never shows itself."""

    def __init__(
        self,
        dsn: str,
        query: str,
        columns: list[tuple[str, str]],
        key: str,
        lake: Lake,
        path: str,
    ) -> None:
        self._dsn, self._query, self._columns = dsn, query, columns
        self._key, self._lake, self._path = key, lake, path

    def __repr__(self) -> str:
        return f"PageTask({self._query!r})"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pylist([self._read()], schema=_RESULT)

    def _read(self) -> dict[str, object]:
        started = time.monotonic()
        try:
            page = read_page(self._dsn, self._query, self._columns)
        except Exception as error:
            # A traceback of the task would carry the connection's values; the sentence does not.
            passing = isinstance(error, SourceUnreachable)
            return {"rows": 0, "bytes": 0, "seconds": 0.0, "error": str(error), "passing": passing}
        size, last = 0, None
        if page.num_rows:
            size = self._lake.write(self._path, page)
            last = pc.max(page.column(self._key)).as_py()
        seconds = time.monotonic() - started
        return {"rows": page.num_rows, "bytes": size, "last_key": last, "seconds": seconds}


_RESULT = pa.schema(
    [
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("last_key", pa.int64()),
        ("seconds", pa.float64()),
        ("error", pa.string()),
        ("passing", pa.bool_()),
    ]
)
