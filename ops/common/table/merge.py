"""Merge many log files of a relation into one: first `old`, last `new` per key.

A merged range has no pin and no base strictly inside, so every epoch somebody holds stays
readable. The replacement is one transaction under the relation's row lock; if a file of the run
was unlisted meanwhile (a fold took it), the merged file is left to the collector.

Spark.
"""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from ops.barrier_worker.commit import list_file, open_attempt
from ops.barrier_worker.lease import require_term
from ops.common.epoch import ZERO, Epoch
from ops.common.errors import AttemptRetired
from ops.common.ports import Failpoint, Lake, Store
from ops.common.table.key_range import joined
from ops.common.table.relation import (
    DataFile,
    Relation,
    StagedFile,
    as_of,
    listing,
    since_truncation,
)
from ops.common.table.retention import mergeable
from ops.common.table.staging import keep_written
from ops.common.table.state_table import StateTable

MAX_LOG_FILES = 16


@dataclass(frozen=True)
class LogMerger:
    """Run by the owner of `graph`, between two of its barriers."""

    store: Store
    lake: Lake
    spark: SparkSession
    failpoint: Failpoint
    graph: str
    term: int

    def merge_if_many(self, relation: Relation, *, limit: int = MAX_LOG_FILES) -> int:
        """Merge when more than `limit` log files are listed; return how many were replaced."""
        listed = listing(self.store, relation)
        if sum(f.kind == "log" for f in listed.files) <= limit:
            return 0
        rows = self.store.query("select_pins", relation=relation.id)
        pins = [Epoch(row["epoch"]) for row in rows]
        base = max((b.epoch for b in listed.bases), default=ZERO)
        run = mergeable(listed.files, pins, base)
        if len(run) < 2:
            return 0
        return self._merge(relation, run)

    def _merge(self, relation: Relation, run: list[DataFile]) -> int:
        attempt = open_attempt(
            self.store,
            self.graph,
            self.term,
            f"{relation.path}/_attempts",
            failpoint=self.failpoint,
        )
        relation = as_of(self.store, relation, run[-1].epoch)
        table = StateTable(self.spark, self.lake, relation)
        counting, truncated = since_truncation(run)
        merged = table.merge_log(counting).coalesce(1)
        self.failpoint("merge.before_write")
        merged.write.mode("overwrite").parquet(self.lake.uri(attempt.directory))
        self.failpoint("merge.after_write")
        unknown = sum(f.unknown_rows for f in counting)
        holes = sum(f.hole_rows for f in counting)
        ranges = joined(f.key_ranges for f in counting)
        staged = [
            StagedFile(
                relation.id,
                attempt.id,
                "log",
                path,
                rows,
                size,
                min(unknown, rows),
                ranges,
                truncates=truncated,
                hole_rows=min(holes, rows),
                schema_version=relation.schema_version,
            )
            for path, rows, size in keep_written(
                self.lake, attempt.directory, failpoint=self.failpoint, also_empty=truncated
            )
        ]
        self.failpoint("merge.before_commit")
        with self.store.transaction() as tx:
            require_term(tx, self.graph, self.term)
            tx.query("lock_relation", relation=relation.id)
            now = listing(tx, relation)
            listed = {f.id for f in now.files}
            pins = [row["epoch"] for row in tx.query("select_pins", relation=relation.id)]
            # A fold that ended meanwhile may have made a base and left these files listed.
            bases = [b.epoch for b in now.bases]
            passed_over = any(run[0].after < held < run[-1].epoch for held in [*pins, *bases])
            if passed_over or not all(f.id in listed for f in run):
                tx.execute("fail_attempt", attempt=attempt.id)
                return 0
            if not tx.execute(
                "commit_attempt", attempt=attempt.id, graph=self.graph, term=self.term
            ):
                raise AttemptRetired(attempt.id)
            tx.execute("unlist_files", files=[f.id for f in run])
            for file in staged:
                list_file(tx, file, after=run[0].after, epoch=run[-1].epoch)
        self.failpoint("merge.after_commit")
        return len(run)
