"""Try the lake with Spark: write, list, delete, and what two writers of one Delta table do.

While Spark writes, a task of its own commits the very version that Spark is about to commit. That
commit must still be there afterwards, whether Spark gave up or took the next version.
"""

from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from resources.lake import Lake
from resources.lake_probe import NO_DELETE, RIVAL, LakeRefused, probe_place


def probe_spark(lake: Lake, spark: SparkSession) -> str:
    with probe_place(lake, "Spark", OSError, DeltaError, PySparkException) as place:
        files, table = f"{place}/files", f"{place}/table"
        one = spark.range(1).coalesce(1)
        for _ in range(2):
            one.write.mode("overwrite").parquet(lake.uri(files))
        found = [path for path in lake.list(files) if path.endswith(".parquet")]
        if len(found) != 1 or spark.read.parquet(lake.uri(files)).count() != 1:
            raise LakeRefused("Spark", lake, "did not replace its own files", NO_DELETE)
        one.write.format("delta").save(lake.uri(table))
        beaten = spark.range(1).coalesce(1).mapInArrow(CommitFirst(lake, table), "id BIGINT")
        try:
            beaten.write.format("delta").mode("append").save(lake.uri(table))
        except PySparkException as error:
            # To give up is as good; anything else would have failed in the writes above.
            if "TASK_WRITE_FAILED" in str(error):
                raise
        rows = DeltaTable(lake.uri(table), storage_options=lake.delta_options())
        if 2 not in rows.to_pyarrow_table(columns=["id"]).column("id").to_pylist():
            raise LakeRefused(
                "Spark",
                lake,
                "wrote over a version that another writer had committed",
                "let no Spark setting choose another LogStore for Delta",
            )
    return "write, list, delete; a commit made meanwhile is kept"


class CommitFirst:
    """What a Spark task runs: commits a version of the table that its own job is about to write."""

    def __init__(self, lake: Lake, path: str) -> None:
        self._lake, self._path = lake, path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            options = self._lake.delta_options()
            uri = self._lake.uri(self._path)
            write_deltalake(uri, RIVAL, mode="append", storage_options=options)
            yield batch
