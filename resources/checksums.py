"""Checksums of key ranges of a source's table, taken by the source, asked for by Spark tasks.

A few tasks, each with one connection at a time, ask for one range after the other: one short
statement each, which reads no more than a limit of rows. Only counts and sums come back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from psycopg import sql
from pyspark.sql import SparkSession

from resources.errors import ConfigError
from resources.key_range import Key, KeyColumn, key_order, key_range
from resources.postgres_link import Link, SourceUnreachable, compose
from resources.postgres_page import page_dsn, read_page

RESULT = "place INT, rows BIGINT, total STRING, error STRING, passing BOOLEAN"


class Checksum(NamedTuple):
    """`total` is the sum of the rows' hashes."""

    rows: int
    total: int


class ChecksumRefused(ConfigError):
    """The source would not take a checksum; the message is its own."""


@dataclass(frozen=True)
class SparkChecksums:
    """`row_hash` is an SQL expression of the source over its columns, a bigint for each row."""

    spark: SparkSession
    link: Link
    schema: str
    table: str
    key: Sequence[KeyColumn]
    row_hash: str
    parallelism: int

    def take(
        self, ranges: Sequence[tuple[Key | None, Key | None]], *, limit: int
    ) -> list[Checksum]:
        """Return the checksum of each range [lower, upper), of `limit` rows at most."""
        queries = [self._query(lower, upper, limit) for lower, upper in ranges]
        tasks = min(self.parallelism, len(queries))
        frame = self.spark.range(0, len(queries), numPartitions=tasks)
        found = frame.mapInArrow(ChecksumTask(page_dsn(self.link), queries), RESULT).toArrow()
        rows = {row["place"]: row for row in found.to_pylist()}
        for row in rows.values():
            if row["error"] is not None:
                error = SourceUnreachable if row["passing"] else ChecksumRefused
                raise error(row["error"])
        return [Checksum(rows[i]["rows"], int(rows[i]["total"])) for i in range(len(queries))]

    def _query(self, lower: Key | None, upper: Key | None, limit: int) -> str:
        text = compose(
            "checksum_range",
            hash=sql.SQL(_verbatim(self.row_hash)),
            table=sql.Identifier(self.schema, self.table),
            where=key_range(self.key, at_least=lower, below=upper),
            key=key_order(self.key),
            limit=sql.Literal(int(limit)),
        ).as_string(None)
        # It becomes the inside of COPY (…): no comment, no semicolon.
        return text[text.index("SELECT") :].strip().removesuffix(";")


class ChecksumTask:
    """What a Spark task runs. It holds passwords, so it never shows itself."""

    def __init__(self, dsn: str, queries: list[str]) -> None:
        self._dsn, self._queries = dsn, queries

    def __repr__(self) -> str:
        return f"ChecksumTask({len(self._queries)} ranges)"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = batch.column(0).to_pylist()
            yield pa.RecordBatch.from_pylist([self._take(p) for p in places], schema=_RESULT)

    def _take(self, place: int) -> dict[str, object]:
        columns = [("rows", "int8"), ("total", "text")]
        try:
            page, _ = read_page(self._dsn, self._queries[place], columns, ())
            found = page.to_pylist()[0]
        except Exception as error:
            # A traceback of the task would carry the connection's values; the sentence does not.
            passing = isinstance(error, SourceUnreachable)
            return {"place": place, "error": str(error), "passing": passing}
        return {"place": place, **found}


def _verbatim(expression: str) -> Any:
    """It is not text of ours: psycopg's type asks for a literal one."""
    return expression


_RESULT = pa.schema(
    [
        ("place", pa.int32()),
        ("rows", pa.int64()),
        ("total", pa.string()),
        ("error", pa.string()),
        ("passing", pa.bool_()),
    ]
)
