"""Pages of a source's table, read by Spark tasks: each reads one key range and writes one file.

The task connects to the source itself and writes to the lake itself; only what it did comes back.
It needs pyarrow, the ADBC driver and this project on the worker's path.
"""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from resources.errors import ConfigError
from resources.key_range import Key, KeyColumn
from resources.lake import Lake
from resources.postgres_link import Link, SourceUnreachable
from resources.postgres_page import load_driver, page_dsn, page_query, read_page

RESULT = (
    "rows BIGINT, bytes BIGINT, memory BIGINT, last_key ARRAY<STRING>, bounds STRING, "
    "seconds DOUBLE, error STRING, passing BOOLEAN"
)


class PageRead(NamedTuple):
    """What a page task did; `memory` is what its rows took before they were a file."""

    rows: int
    bytes: int
    memory: int
    last_key: Key | None
    bounds: tuple[Any, Any] | None
    """The least and the greatest value of the key's first column, where Arrow shares its order."""
    seconds: float

    @staticmethod
    def from_row(row: dict[str, Any]) -> "PageRead":
        last, bounds = row["last_key"], row["bounds"]
        return PageRead(
            row["rows"],
            row["bytes"],
            row["memory"],
            None if last is None else tuple(last),
            None if bounds is None else tuple(json.loads(bounds)),
            row["seconds"],
        )


@dataclass(frozen=True)
class SparkPages:
    """`columns` are (name, our type) pairs; the key's columns are among them.

    `scan` is the order in which the key's columns are read, `first` the first in the key's own.
    """

    spark: SparkSession
    link: Link
    lake: Lake
    schema: str
    table: str
    columns: Sequence[tuple[str, str]]
    scan: Sequence[KeyColumn]
    first: str
    only: str | None = None

    def read(
        self,
        *,
        at_least: Key | None,
        above: Key | None,
        below: Key | None,
        limit: int,
        path: str,
    ) -> PageRead:
        """Read up to `limit` rows of a key range, in key order, into one file."""
        query = page_query(
            self.schema,
            self.table,
            self.columns,
            self.scan,
            at_least=at_least,
            above=above,
            below=below,
            only=self.only,
            limit=limit,
        )
        columns, scan = list(self.columns), list(self.scan)
        task = PageTask(page_dsn(self.link), query, columns, scan, self.first, self.lake, path)
        frame = self.spark.range(0, 1, numPartitions=1).mapInArrow(task, RESULT)
        row = frame.toArrow().to_pylist()[0]
        if row["error"] is not None:
            raise SourceUnreachable(row["error"]) if row["passing"] else PageRefused(row["error"])
        return PageRead.from_row(row)


class PageRefused(ConfigError):
    """A page holds what its table cannot keep; the message names the column."""


class PageTask:
    """What a Spark task runs. It holds passwords, so it never shows itself."""

    def __init__(
        self,
        dsn: str,
        query: str,
        columns: list[tuple[str, str]],
        scan: list[KeyColumn],
        first: str,
        lake: Lake,
        path: str,
    ) -> None:
        self._dsn, self._query, self._columns = dsn, query, columns
        self._scan, self._first, self._lake, self._path = scan, first, lake, path

    def __repr__(self) -> str:
        return f"PageTask({self._query!r})"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pylist([self.read()], schema=_RESULT)

    def read(self) -> dict[str, Any]:
        """Read and write the page; what went wrong is in the answer."""
        load_driver()
        started = time.monotonic()
        try:
            page, last = read_page(self._dsn, self._query, self._columns, self._scan)
        except Exception as error:
            # A traceback of the task would carry the connection's values; the sentence does not.
            passing = isinstance(error, SourceUnreachable)
            return {"error": str(error), "passing": passing}
        size = self._lake.write(self._path, page) if page.num_rows else 0
        return {
            "rows": page.num_rows,
            "bytes": size,
            "memory": page.nbytes,
            "last_key": last,
            "bounds": _bounds(page.column(self._first)),
            "seconds": time.monotonic() - started,
            "error": None,
        }


def _bounds(values: pa.ChunkedArray) -> str | None:
    """Return the ends of a column as JSON; None where its order may not be Arrow's."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if not (pa.types.is_integer(values.type) or pa.types.is_string(values.type)) or not len(values):
        return None
    ends = pc.min_max(values).as_py()
    return json.dumps([ends["min"], ends["max"]])


_RESULT = pa.schema(
    [
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("memory", pa.int64()),
        ("last_key", pa.list_(pa.string())),
        ("bounds", pa.string()),
        ("seconds", pa.float64()),
        ("error", pa.string()),
        ("passing", pa.bool_()),
    ]
)
