"""Read a relation as of an epoch: whole, by keys, or as the changes between two epochs.

    read(E)              base or snapshot rows whose key the log does not name, and the log's rows
    lookup(keys, E)      the same for some keys only, from the files and row groups whose key ranges
                         they may lie in, and without a group-by over the rest
    changes(a, b)        key, old, new: net over (a, b], unknown `old` looked up as of a

Every key comparison takes NULL as equal to NULL: the groups of a view may be NULL.

Spark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ops.common.columns import field, key_struct, same_key, vnode_column, within
from ops.common.ports import Lake, VersionFile
from ops.common.schema import Schema, quote, spark_type, struct_ddl
from ops.common.table.key_range import KeyRanges, joined, overlap
from ops.common.table.log import DELETE, UPSERT, log_ddl
from ops.common.table.point_lookup import KEY_KINDS
from ops.common.table.relation import Contents, DataFile, Relation, StagedFile
from ops.common.table.small_changes import DRIVER, Reach, newest_of, small_changes, superseded

BROADCAST_ROWS = 1_000_000
"""A log of up to this many rows goes to wherever the base's rows are, not the other way round."""


@dataclass(frozen=True)
class StateTable:
    spark: SparkSession
    lake: Lake
    relation: Relation
    reach: Reach = DRIVER

    @property
    def schema(self) -> Schema:
        return self.relation.schema

    def read(self, contents: Contents) -> DataFrame:
        """Return the relation's columns as of `contents.as_of`."""
        rows = self._base_rows(contents)
        if not contents.logs:
            return rows.select(*self._columns())
        log = self.log(contents.logs)
        counted = sum(f.rows for f in contents.logs)
        if not self._is_held(contents.logs):
            upserts = _rows(self.newest(contents))
        elif counted <= self.reach.handed_rows:
            newest = newest_of(self.lake, self.schema, [f.path for f in contents.logs])
            log, upserts = self._key_frame(newest.select(["key"])), self._handed(newest)
        else:
            upserts = self._without_superseded(log, contents.logs)
        return self._overlay(rows, log, upserts, small=counted <= BROADCAST_ROWS)

    def lookup(
        self, contents: Contents, keys: DataFrame, *, ranges: KeyRanges | None = None
    ) -> DataFrame:
        """Return (`key`, `row`) for those of `keys` (one struct column `key`) that exist.

        `ranges` hold all of the keys; without them every file is read.
        """
        contents = _near(contents, ranges)
        wanted = F.broadcast(keys.select(F.col("key").alias("wanted")).distinct())
        match_rows = same_key("key", "wanted", self.schema.key_columns)
        rows = self._within(self._base_rows(contents, ranges), "", ranges).select(
            key_struct(self.schema.key_columns).alias("key"),
            F.struct(*self._columns()).alias("row"),
        )
        found = rows.join(wanted, on=match_rows, how="left_semi")
        if not contents.logs:
            return found
        log = self._within(self.log(contents.logs), "key", ranges)
        log = log.join(wanted, on=match_rows, how="left_semi")
        newest = self._newest(log, single=len(contents.logs) == 1)
        named = newest.select(F.col("key").alias("named"))
        older = found.join(
            F.broadcast(named),
            on=same_key("key", "named", self.schema.key_columns),
            how="left_anti",
        )
        return older.unionByName(
            newest.where(F.col("op") == UPSERT).select("key", F.col("new").alias("row"))
        )

    def changes(self, files: Sequence[DataFile | StagedFile], before: Contents) -> DataFrame:
        """Return (`key`, `old`, `new`) net over `files`; `before` is the relation just before."""
        blind = [f for f in files if f.unknown_rows]
        ranges = joined(f.key_ranges for f in blind)
        if blind and self._is_in_reach(files, before, ranges):
            return _moved(self._small(files, before, ranges))
        log = self.log(files)
        net = log if len(files) == 1 else self._net(log)
        if blind:
            missing = net.where(~F.col("known")).select("key")
            looked_up = self.lookup(before, missing, ranges=ranges)
            found = looked_up.select(F.col("key").alias("found"), "row")
            net = net.join(
                found,
                on=~F.col("known") & same_key("key", "found", self.schema.key_columns),
                how="left",
            ).withColumn("old", F.when(F.col("known"), F.col("old")).otherwise(F.col("row")))
        return _moved(net)

    def log(self, files: Sequence[DataFile | StagedFile]) -> DataFrame:
        paths = [self.lake.uri(f.path) for f in files]
        return self.spark.read.schema(log_ddl(self.schema)).parquet(*paths)

    def rows_of_vnodes(self, contents: Contents, vnodes: Sequence[int]) -> DataFrame:
        """Return the rows whose key falls into one of `vnodes`."""
        rows = self.read(contents)
        if len(vnodes) == self.relation.vnode_count:
            return rows
        vnode = vnode_column(self.schema.key_columns, self.relation.vnode_count)
        return rows.where(vnode.isin(list(vnodes)))

    def newest(self, contents: Contents) -> DataFrame:
        """Return (`key`, `op`, `new`): what the log says last of each key it names."""
        return self._newest(self.log(contents.logs), single=len(contents.logs) == 1)

    def merge_log(self, log: DataFrame) -> DataFrame:
        """Return log rows with one row per key, as the log has them, sorted by key."""
        first = F.min_by(F.struct("known", "old"), "epoch").alias("first")
        last = F.max_by(F.struct("vnode", "epoch", "op", "new"), "epoch").alias("last")
        merged = log.groupBy("key").agg(first, last)
        return merged.select(
            "last.vnode", "last.epoch", "last.op", "first.known", "key", "last.new", "first.old"
        ).orderBy("key")

    def count_by_vnode(self, rows: DataFrame) -> dict[int, int]:
        """Return how many of `rows` each vnode has; a job of its own, worth it for the progress."""
        vnode = vnode_column(self.schema.key_columns, self.relation.vnode_count)
        counted = rows.groupBy(vnode.alias("vnode")).count()
        return {row["vnode"]: row["count"] for row in counted.collect()}

    def _base_rows(self, contents: Contents, ranges: KeyRanges | None = None) -> DataFrame:
        """Return the rows below the log, from the files that may hold a key in `ranges`.

        A version's files are read as they are: going through Delta would work out the version's
        state in Spark jobs of its own, for each read.
        """
        paths = [path for path, _ in self._below(contents, ranges)]
        ddl = self._ddl()
        if not paths:
            return self.spark.createDataFrame([], ddl)
        return self.spark.read.schema(ddl).parquet(*(self.lake.uri(path) for path in paths))

    def _below(self, contents: Contents, ranges: KeyRanges | None) -> Sequence[tuple[str, int]]:
        """Return path and bytes of the base's files, or the pages before there is one."""
        if contents.base is None:
            return [(f.path, f.bytes) for f in contents.snapshots]
        base, first = contents.base, self.schema.key[0]
        files = self.lake.version_files(base.path, base.version, first)
        return [(f.path, f.bytes) for f in files if _may_hold(f, ranges)]

    def _is_in_reach(
        self, files: Sequence[DataFile | StagedFile], before: Contents, ranges: KeyRanges | None
    ) -> bool:
        if any(column.type.kind not in KEY_KINDS for column in self.schema.key_columns):
            return False
        near = _near(before, ranges)
        size = sum(size for _, size in self._below(near, ranges)) + sum(f.bytes for f in near.logs)
        return sum(f.rows for f in files) <= self.reach.rows and size <= self.reach.bytes

    def _small(
        self, files: Sequence[DataFile | StagedFile], before: Contents, ranges: KeyRanges | None
    ) -> DataFrame:
        near = _near(before, ranges)
        row, key = struct_ddl(self.schema.columns), struct_ddl(self.schema.key_columns)
        found = small_changes(
            self.lake,
            self.schema,
            [f.path for f in files],
            below=[path for path, _ in self._below(near, ranges)],
            logs=[f.path for f in near.logs],
        )
        return self.spark.createDataFrame(found, f"key {key}, old {row}, new {row}")

    def _within(self, rows: DataFrame, path: str, ranges: KeyRanges | None) -> DataFrame:
        """Let Parquet skip the row groups outside of `ranges`, taken as one.

        Many ranges in one condition cost the optimizer seconds; files were chosen by them already.
        """
        if ranges is None:
            return rows
        first = self.schema.key_columns[0]
        whole = (ranges[0][0], ranges[-1][1])
        return rows.where(within(field(path, first.name), whole, first))

    def _newest(self, log: DataFrame, *, single: bool) -> DataFrame:
        if single:
            return log.select("key", "op", "new")
        last = F.max_by(F.struct("op", "new"), "epoch").alias("last")
        return log.groupBy("key").agg(last).select("key", "last.op", "last.new")

    def _net(self, log: DataFrame) -> DataFrame:
        """Return the first `old` and the last `new` per key. Same law as `net.merge_net`."""
        first = F.min_by(F.struct("known", "old"), "epoch").alias("first")
        last = F.max_by(F.struct("new"), "epoch").alias("last")
        merged = log.groupBy("key").agg(first, last)
        return merged.select("key", "first.known", "first.old", "last.new")

    def _overlay(
        self, rows: DataFrame, named: DataFrame, upserts: DataFrame, *, small: bool
    ) -> DataFrame:
        """Return `rows` without the keys that the log has `named`, and the log's `upserts`."""
        named = named.select(F.col("key").alias("_tg_named"))
        kept = rows.join(
            F.broadcast(named) if small else named,
            on=same_key("", "_tg_named", self.schema.key_columns),
            how="left_anti",
        ).select(*self._columns())
        return kept.unionByName(upserts.select(*self._columns()))

    def _without_superseded(self, log: DataFrame, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows that a log leaves; which are superseded is found out here, not in Spark:
        they are few, and a grouping of the others costs seconds."""
        stale = superseded(self.lake, self.schema, [f.path for f in files])
        if not stale.num_rows:
            return _rows(log)
        old = self._key_frame(stale, ", epoch BIGINT").select(
            F.col("key").alias("stale"), F.col("epoch").alias("stale_epoch")
        )
        same = same_key("key", "stale", self.schema.key_columns)
        again = same & (F.col("epoch") == F.col("stale_epoch"))
        return _rows(log.join(F.broadcast(old), on=again, how="left_anti"))

    def _handed(self, newest: pa.Table) -> DataFrame:
        rows = newest.column("new").combine_chunks().drop_null().flatten()
        return self.spark.createDataFrame(pa.table(rows, names=self.schema.names), self._ddl())

    def _key_frame(self, keys: pa.Table, more: str = "") -> DataFrame:
        ddl = f"key {struct_ddl(self.schema.key_columns)}{more}"
        return self.spark.createDataFrame(keys, ddl)

    def _ddl(self) -> str:
        return ", ".join(f"{quote(c.name)} {spark_type(c.type)}" for c in self.schema.columns)

    def _is_held(self, logs: Sequence[DataFile]) -> bool:
        """Tell whether a log may be brought to the driver as a whole."""
        if any(column.type.kind not in KEY_KINDS for column in self.schema.key_columns):
            return False
        rows, size = sum(f.rows for f in logs), sum(f.bytes for f in logs)
        return rows <= self.reach.rows and size <= self.reach.held_bytes

    def _columns(self) -> list[str]:
        return [quote(name) for name in self.schema.names]


def _rows(log: DataFrame) -> DataFrame:
    return log.where(F.col("op") != DELETE).select("new.*")


def _moved(net: DataFrame) -> DataFrame:
    moved = net.select("key", "old", "new")
    return moved.where(~F.col("old").eqNullSafe(F.col("new")))


def _may_hold(file: VersionFile, ranges: KeyRanges | None) -> bool:
    if ranges is None or not isinstance(file.low, int) or not isinstance(ranges[0][0], int):
        return True
    return overlap(((file.low, file.high),), ranges)


def _near(contents: Contents, ranges: KeyRanges | None) -> Contents:
    """Leave out the files that hold no key in `ranges`."""

    def may_hold(file: DataFile) -> bool:
        return ranges is None or file.key_ranges is None or overlap(file.key_ranges, ranges)

    return replace(
        contents,
        snapshots=tuple(f for f in contents.snapshots if may_hold(f)),
        logs=tuple(f for f in contents.logs if may_hold(f)),
    )
