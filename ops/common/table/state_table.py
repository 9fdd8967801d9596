"""Read a relation as of an epoch: whole, by keys, or as the changes between two epochs.

    read(E)              base or snapshot rows whose key the log does not name, and the log's rows
    lookup(keys, E)      the same for some keys only, from the files and row groups whose key ranges
                         they may lie in, and without a group-by over the rest
    changes(a, b)        key, old, new: net over (a, b], unknown `old` looked up as of a; if the
                         table was truncated in between, all rows as of a against what is left

A hole of a log row (`holes.py`) is filled from what is below it: a read has the base at hand, and
changes have looked the row up anyway, since where there are holes there is no before image. A file
is read by its own version of the schema: what came later is NULL in it, or has the default it was
added with. The driver's short ways are for files that have none of this.

Every key comparison takes NULL as equal to NULL: the groups of a view may be NULL.

Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ops.common.columns import field, key_struct, same_key, vnode_column, within
from ops.common.ports import Lake, VersionFile
from ops.common.schema import Column, Schema, quote, spark_type, struct_ddl
from ops.common.table.defaults import default, later_defaults, with_defaults
from ops.common.table.holes import filled, grouped, have_holes, laid_over
from ops.common.table.key_range import KeyRanges, joined, overlap
from ops.common.table.log import DELETE, UPSERT, log_ddl
from ops.common.table.point_lookup import KEY_KINDS
from ops.common.table.relation import (
    Contents,
    DataFile,
    Relation,
    StagedFile,
    since_truncation,
)
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
        counted = sum(f.rows for f in contents.logs)
        if have_holes(contents.logs):
            small = counted <= BROADCAST_ROWS
            return laid_over(rows, self.newest(contents), self.schema, small=small)
        log = self.log(contents.logs)
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
        rows = self._keyed(self._within(self._base_rows(contents, ranges), "", ranges))
        found = rows.join(wanted, on=match_rows, how="left_semi")
        if not contents.logs:
            return found
        log = self._within(self.log(contents.logs), "key", ranges)
        log = log.join(wanted, on=match_rows, how="left_semi")
        newest = self._newest(log, contents.logs)
        if have_holes(contents.logs):
            whole = laid_over(found.select("row.*"), newest, self.schema, small=True)
            return self._keyed(whole)
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
        left, truncated = since_truncation(files)
        if truncated:
            return self._replaced(self.read(before), self._newest(self.log(left), left))
        blind = [f for f in files if f.unknown_rows]
        ranges = joined(f.key_ranges for f in blind)
        if blind and self._is_in_reach(files, before, ranges):
            return _moved(self._small(files, before, ranges))
        net = self._net(self.log(files), files)
        if blind:
            missing = net.where(~F.col("known")).select("key")
            looked_up = self.lookup(before, missing, ranges=ranges)
            found = looked_up.select(F.col("key").alias("found"), "row")
            net = net.join(
                found,
                on=~F.col("known") & same_key("key", "found", self.schema.key_columns),
                how="left",
            ).withColumn("old", F.when(F.col("known"), F.col("old")).otherwise(F.col("row")))
        if have_holes(files):
            net = net.withColumn("new", filled("new", "holes", "old", self.schema))
        return _moved(net)

    def log(self, files: Sequence[DataFile | StagedFile]) -> DataFrame:
        by_version: dict[int, list[str]] = {}
        for file in files:
            by_version.setdefault(file.schema_version, []).append(file.path)
        frames = []
        for paths, later in self._versions(by_version):
            uris = [self.lake.uri(path) for path in paths]
            rows = self.spark.read.schema(log_ddl(self.schema)).parquet(*uris)
            for image in ("new", "old") if later else ():
                rows = rows.withColumn(image, with_defaults(image, later, self.schema))
            frames.append(rows)
        return reduce(DataFrame.unionByName, frames)

    def rows_of_vnodes(self, contents: Contents, vnodes: Sequence[int]) -> DataFrame:
        """Return the rows whose key falls into one of `vnodes`."""
        rows = self.read(contents)
        if len(vnodes) == self.relation.vnode_count:
            return rows
        vnode = vnode_column(self.schema.key_columns, self.relation.vnode_count)
        return rows.where(vnode.isin(list(vnodes)))

    def newest(self, contents: Contents) -> DataFrame:
        """Return (`key`, `op`, `new`, `holes`): what the log says last of each key it names."""
        return self._newest(self.log(contents.logs), contents.logs)

    def as_log(self, rows: DataFrame) -> DataFrame:
        """Return whole rows as `newest` would."""
        return rows.select(
            key_struct(self.schema.key_columns).alias("key"),
            F.lit(UPSERT).alias("op"),
            F.struct(*self._columns()).alias("new"),
            F.lit(None).cast("array<string>").alias("holes"),
        )

    def merge_log(self, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows of log files with one row per key, as the log has them, sorted by key."""
        merged = grouped(self.log(files), files, self.schema)
        columns = ("last.vnode", "last.epoch", "last.op", "first.known", "key", "new")
        return merged.select(*columns, "first.old", "holes").orderBy("key")

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
        by_version: dict[int, list[str]] = {}
        for path, _, version in self._below(contents, ranges):
            by_version.setdefault(version, []).append(path)
        ddl = self._ddl()
        if not by_version:
            return self.spark.createDataFrame([], ddl)
        frames = []
        for paths, later in self._versions(by_version):
            rows = self.spark.read.schema(ddl).parquet(*(self.lake.uri(p) for p in paths))
            given = {c.name: default(c) for c in later}
            if given:
                rows = rows.select(
                    *(given.get(n, field("", n)).alias(n) for n in self.schema.names)
                )
            frames.append(rows)
        return reduce(DataFrame.unionByName, frames)

    def _versions(
        self, by_version: Mapping[int, list[str]]
    ) -> list[tuple[list[str], tuple[Column, ...]]]:
        """Return files to be read as one, with the columns whose defaults their rows have."""
        together: dict[tuple[Column, ...], list[str]] = {}
        for version, paths in by_version.items():
            together.setdefault(later_defaults(self.schema, version), []).extend(paths)
        return [(paths, later) for later, paths in together.items()]

    def _below(
        self, contents: Contents, ranges: KeyRanges | None
    ) -> Sequence[tuple[str, int, int]]:
        """Return path, bytes and schema's version of the base's files, or of pages before it."""
        if contents.truncated:
            return []
        if contents.base is None:
            return [(f.path, f.bytes, f.schema_version) for f in contents.snapshots]
        base, first = contents.base, self.schema.key[0]
        files = self.lake.version_files(base.path, base.version, first)
        found = [f for f in files if _may_hold(f, ranges)]
        return [(f.path, f.bytes, base.schema_version) for f in found]

    def _is_in_reach(
        self, files: Sequence[DataFile | StagedFile], before: Contents, ranges: KeyRanges | None
    ) -> bool:
        if any(column.type.kind not in KEY_KINDS for column in self.schema.key_columns):
            return False
        near = _near(before, ranges)
        below = self._below(near, ranges)
        versions = {version for _, _, version in below}
        if not self._is_even([*files, *near.logs]) or versions - {self.relation.schema_version}:
            return False
        size = sum(size for _, size, _ in below) + sum(f.bytes for f in near.logs)
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
            below=[path for path, _, _ in self._below(near, ranges)],
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

    def _newest(self, log: DataFrame, files: Sequence[DataFile | StagedFile]) -> DataFrame:
        if len(files) == 1:
            return log.select("key", "op", "new", "holes")
        return grouped(log, files, self.schema).select("key", "last.op", "new", "holes")

    def _net(self, log: DataFrame, files: Sequence[DataFile | StagedFile]) -> DataFrame:
        """Return the first `old` and the last `new` per key. Same law as `net.merge_net`."""
        if len(files) == 1:
            return log
        whole = grouped(log, files, self.schema)
        return whole.select("key", "first.known", "first.old", "new", "holes")

    def _replaced(self, rows: DataFrame, newest: DataFrame) -> DataFrame:
        """Return the changes from `rows` to just what `newest` says."""
        before = self._keyed(rows).select(F.col("key").alias("was"), F.col("row").alias("old"))
        after = newest.where(F.col("op") != DELETE).select(F.col("key").alias("is"), "new")
        both = before.join(
            after, on=same_key("was", "is", self.schema.key_columns), how="full_outer"
        )
        return _moved(both.select(F.coalesce("was", "is").alias("key"), "old", "new"))

    def _keyed(self, rows: DataFrame) -> DataFrame:
        return rows.select(
            key_struct(self.schema.key_columns).alias("key"),
            F.struct(*self._columns()).alias("row"),
        )

    def _is_even(self, files: Sequence[DataFile | StagedFile]) -> bool:
        """Tell whether all log files have the columns of now, and no holes."""
        version = self.relation.schema_version
        return not have_holes(files) and all(f.schema_version == version for f in files)

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
        if not self._is_even(logs) or any(
            column.type.kind not in KEY_KINDS for column in self.schema.key_columns
        ):
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
