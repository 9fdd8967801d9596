"""Read a relation as of an epoch: whole, by keys, or as the changes between two epochs.

    read(E)              base or snapshot rows whose key the log does not name, and the log's rows
    lookup(keys, E)      the same for some keys only, from the files and row groups whose key ranges
                         they may lie in, and without a group-by over the rest
    changes(a, b)        key, old, new: net over (a, b], unknown `old` looked up as of a; if the
                         table was truncated in between, all rows as of a against what is left

A hole of a log row (`holes.py`) is filled from what is below it: a read has the base at hand, and
changes have looked the row up anyway, since where there are holes there is no before image.

A file is read by its own version of the schema: what came later is NULL in it, or has the default
it was added with.

Every key comparison takes NULL as equal to NULL: the groups of a view may be NULL.

Spark.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ops.common.columns import field, key_struct, same_key, vnode_column, within
from ops.common.ports import Lake, VersionFile
from ops.common.schema import Column, Schema, quote, spark_type
from ops.common.table.defaults import default, later_defaults, with_defaults
from ops.common.table.holes import filled, has_hole, have_holes, newest_given, with_given
from ops.common.table.key_range import KeyRanges, joined, overlap
from ops.common.table.log import DELETE, UPSERT, log_ddl
from ops.common.table.relation import (
    Contents,
    DataFile,
    Relation,
    StagedFile,
    since_truncation,
)

BROADCAST_ROWS = 1_000_000
"""A log of up to this many rows goes to wherever the base's rows are, not the other way round."""


@dataclass(frozen=True)
class StateTable:
    spark: SparkSession
    lake: Lake
    relation: Relation

    @property
    def schema(self) -> Schema:
        return self.relation.schema

    def read(self, contents: Contents) -> DataFrame:
        """Return the relation's columns as of `contents.as_of`."""
        rows = self._base_rows(contents)
        if not contents.logs:
            return rows.select(*self._columns())
        small = sum(f.rows for f in contents.logs) <= BROADCAST_ROWS
        holes = have_holes(contents.logs)
        return self._overlay(rows, self.newest(contents), small=small, holes=holes)

    def lookup(
        self, contents: Contents, keys: DataFrame, *, ranges: KeyRanges | None = None
    ) -> DataFrame:
        """Return (`key`, `row`) for those of `keys` (one struct column `key`) that exist.

        `ranges` hold all of the keys; without them every file is read.
        """
        contents = _near(contents, ranges)
        wanted = F.broadcast(keys.select(F.col("key").alias("wanted")).distinct())
        match_rows = same_key("key", "wanted", self.schema.key_columns)
        rows = self._within(self._base_rows(contents, ranges), "", ranges)
        tagged = rows.select(*self._columns(), key_struct(self.schema.key_columns).alias("key"))
        found = tagged.join(wanted, on=match_rows, how="left_semi").select(*self._columns())
        if contents.logs:
            log = self._within(self.log(contents.logs), "key", ranges)
            log = log.join(wanted, on=match_rows, how="left_semi")
            newest = self._newest(log, contents.logs)
            found = self._overlay(found, newest, small=True, holes=have_holes(contents.logs))
        return found.select(
            key_struct(self.schema.key_columns).alias("key"),
            F.struct(*self._columns()).alias("row"),
        )

    def changes(self, files: Sequence[DataFile | StagedFile], before: Contents) -> DataFrame:
        """Return (`key`, `old`, `new`) net over `files`; `before` is the relation just before."""
        left, truncated = since_truncation(files)
        if truncated:
            return self._replaced(self.read(before), self._newest(self.log(left), left))
        net = self._net(self.log(files), files)
        blind = [f for f in files if f.unknown_rows]
        if blind:
            missing = net.where(~F.col("known")).select("key")
            ranges = joined(f.key_ranges for f in blind)
            looked_up = self.lookup(before, missing, ranges=ranges)
            found = looked_up.select(F.col("key").alias("found"), "row")
            net = net.join(
                found,
                on=~F.col("known") & same_key("key", "found", self.schema.key_columns),
                how="left",
            ).withColumn("old", F.when(F.col("known"), F.col("old")).otherwise(F.col("row")))
        if have_holes(files):
            net = net.withColumn("new", filled("new", "holes", "old", self.schema))
        moved = net.select("key", "old", "new")
        return moved.where(~F.col("old").eqNullSafe(F.col("new")))

    def _replaced(self, rows: DataFrame, newest: DataFrame) -> DataFrame:
        """Return the changes from `rows` to just what `newest` says."""
        before = rows.select(
            key_struct(self.schema.key_columns).alias("was"),
            F.struct(*self._columns()).alias("old"),
        )
        after = newest.where(F.col("op") != DELETE).select(F.col("key").alias("is"), "new")
        both = before.join(
            after, on=same_key("was", "is", self.schema.key_columns), how="full_outer"
        )
        moved = both.select(F.coalesce("was", "is").alias("key"), "old", "new")
        return moved.where(~F.col("old").eqNullSafe(F.col("new")))

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
        merged = self._grouped(self.log(files), files)
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
        if contents.base is not None and not contents.truncated:
            base, first = contents.base, self.schema.key[0]
            files = self.lake.version_files(base.path, base.version, first)
            paths = [f.path for f in files if _may_hold(f, ranges)]
            by_version = {base.schema_version: paths} if paths else {}
        elif contents.base is None:
            for file in contents.snapshots:
                by_version.setdefault(file.schema_version, []).append(file.path)
        ddl = ", ".join(f"{quote(c.name)} {spark_type(c.type)}" for c in self.schema.columns)
        if not by_version:
            return self.spark.createDataFrame([], ddl)
        frames = []
        for paths, later in self._versions(by_version):
            rows = self.spark.read.schema(ddl).parquet(*(self.lake.uri(p) for p in paths))
            if later:
                given = {c.name: default(c) for c in later}
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
        return self._grouped(log, files).select("key", "last.op", "new", "holes")

    def _net(self, log: DataFrame, files: Sequence[DataFile | StagedFile]) -> DataFrame:
        """Return the first `old` and the last `new` per key. Same law as `net.merge_net`."""
        if len(files) == 1:
            return log
        return self._grouped(log, files).select("key", "first.known", "first.old", "new", "holes")

    def _grouped(self, log: DataFrame, files: Sequence[DataFile | StagedFile]) -> DataFrame:
        first = F.min_by(F.struct("known", "old"), "epoch").alias("first")
        last = F.max_by(F.struct("vnode", "epoch", "op", "new", "holes"), "epoch").alias("last")
        if not have_holes(files):
            grouped = log.groupBy("key").agg(first, last)
            return grouped.select("*", "last.new", "last.holes")
        grouped = log.groupBy("key").agg(first, last, *newest_given(self.schema))
        return with_given(grouped, self.schema)

    def _overlay(
        self, rows: DataFrame, newest: DataFrame, *, small: bool, holes: bool
    ) -> DataFrame:
        """Lay what the log says over rows; those of it with holes are filled from the rows."""
        key_columns = self.schema.key_columns
        tagged = rows.select(*self._columns(), key_struct(key_columns).alias("_tg_key"))
        is_row = F.col("op") != DELETE
        if holes:
            is_partial = is_row & (F.coalesce(F.size("holes"), F.lit(0)) > 0)
            named = newest.select(
                F.col("key").alias("_tg_named"),
                F.when(is_partial, F.col("new")).alias("_tg_new"),
                F.col("holes").alias("_tg_holes"),
            )
            both = tagged.join(
                F.broadcast(named) if small else named,
                on=same_key("_tg_key", "_tg_named", key_columns),
                how="left",
            )
            stays = F.col("_tg_named").isNull() | F.col("_tg_new").isNotNull()
            kept = both.where(stays).select(*(self._laid_over(c.name) for c in self.schema.columns))
            whole = newest.where(is_row & ~is_partial)
        else:
            named = newest.select(F.col("key").alias("_tg_named"))
            kept = tagged.join(
                F.broadcast(named) if small else named,
                on=same_key("_tg_key", "_tg_named", key_columns),
                how="left_anti",
            ).select(*self._columns())
            whole = newest.where(is_row)
        return kept.unionByName(
            whole.select(*(field("new", c.name).alias(c.name) for c in self.schema.columns))
        )

    def _laid_over(self, name: str) -> SparkColumn:
        sent = F.col("_tg_new").isNotNull() & ~has_hole("_tg_holes", name)
        return F.when(sent, field("_tg_new", name)).otherwise(field("", name)).alias(name)

    def _columns(self) -> list[str]:
        return [quote(name) for name in self.schema.names]


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
