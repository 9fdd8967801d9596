"""Fold the log of a relation into its Delta base, off the tick path.

    recorded (version v, epoch e) --MERGE log (e, F], stamped F--> version v', recorded (v', F)

The first fold makes the base in the relation's own directory from exactly the listed snapshot
files, added in one Delta commit; what it records is the version after the log was merged in.

Fenced: the caller holds the relation's maintenance term and a Spark session of its own; folding
starts only if Delta's latest version is the recorded one or carries our stamp; the version made is
found by its stamp, never as "latest"; recording is compare-and-set under the relation's row lock.
F is chosen and pinned for all relations of a pipeline at one instant, so that no merge passes over
it while they are folded one after the other.

Spark.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pyspark.sql import SparkSession

from ops.barrier_worker.lease import Term, require_term
from ops.common.arrow import arrow_schema
from ops.common.epoch import ZERO, Epoch, epoch_at, unix_ms
from ops.common.errors import ConsistencyError, TermOver
from ops.common.ports import Failpoint, Lake, Statements, Store
from ops.common.schema import quote
from ops.common.table.collect import UNLISTED_SECONDS
from ops.common.table.key_range import is_disordered
from ops.common.table.log import DELETE
from ops.common.table.relation import (
    Base,
    Contents,
    Relation,
    contents,
    listing,
    versions_of,
)
from ops.common.table.retention import folded, forgettable, next_log_start
from ops.common.table.state_table import StateTable

STAMP = "spark.databricks.delta.commitInfo.userMetadata"
TXN_APP = "spark.databricks.delta.write.txnAppId"
TXN_VERSION = "spark.databricks.delta.write.txnVersion"
SORT_EVERY = 8
SORTING = {
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
    "spark.databricks.delta.optimize.minFileSize": str(128 << 20),
    "spark.databricks.delta.optimize.zorder.checkStatsCollection.enabled": "false",
    "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    "spark.databricks.io.skipping.mdc.addNoise": "false",
}


class UnexpectedVersion(ConsistencyError):
    def __init__(self, table: str, *, recorded: int | None, found: int) -> None:
        super().__init__(
            f"the base of {table} is at Delta version {found}, recorded is {recorded}: somebody "
            "else has written to it"
        )


class DeltaTables(Protocol):
    """What folding needs of Delta beyond SQL; paths are relative to the lake."""

    def create(
        self, path: str, files: Sequence[str], schema: Any, *, stamp: str, key: str
    ) -> None: ...
    def latest(self, path: str) -> tuple[int, str | None] | None: ...
    def find(self, path: str, stamp: str) -> int | None: ...
    def settle(self, path: str, *, after: int, upto: int) -> None: ...


@contextmanager
def fold_point(
    store: Store, pipeline: str, *, main_graph: str, term: Term, failpoint: Failpoint
) -> Iterator[tuple[Epoch, list[Relation]]]:
    """Give the epoch to fold to and what can be folded; the epoch is pinned for the block.

    `term` is that of the pipeline's maintenance. Under the main graph's row lock no table goes
    live and no view rejoins or falls out of step: all of these are whole at the epoch.
    """
    failpoint("fold.before_pin")
    with store.transaction() as tx:
        require_term(tx, term.graph, term.term)
        epoch = Epoch(tx.query("lock_graph", graph=main_graph)[0]["committed"])
        # Left by a process that was killed.
        tx.execute("delete_pins", owner=term.graph)
        tx.execute("delete_expired_pins", pipeline=pipeline)
        settled = {row["id"] for row in tx.query("select_live_relations", pipeline=pipeline)}
        relations = [r for r in versions_of(tx, pipeline) if r.id in settled]
        for relation in relations:
            tx.query("lock_relation", relation=relation.id)
            tx.execute("upsert_pin", relation=relation.id, owner=term.graph, epoch=epoch)
    failpoint("fold.after_pin")
    try:
        yield epoch, relations
    finally:
        failpoint("fold.before_unpin")
        with store.transaction() as tx:
            if tx.query("lock_graph", graph=term.graph)[0]["term"] == term.term:
                tx.execute("delete_pins", owner=term.graph)
        failpoint("fold.after_unpin")


@dataclass(frozen=True)
class Folder:
    store: Store
    lake: Lake
    spark: SparkSession
    delta: DeltaTables
    failpoint: Failpoint
    term: Term
    keep_s: float
    """How long a base stays readable at its own epoch after newer ones have come."""
    sort_bytes: int = 64 << 20
    """A base of less than this is read as a whole as fast as by its bounds."""

    def fold(self, relation: Relation, epoch: Epoch) -> Base | None:
        """Bring the base to `epoch`, which is pinned; None when nothing is to fold."""
        whole = contents(self.store, relation, epoch)
        if not whole.logs and whole.base is not None:
            # Nothing has changed, and the epoch is one that all relations can be read at.
            if whole.base.epoch < epoch:
                self._record(relation, whole, replace(whole.base, epoch=epoch))
            return None
        if not whole.logs and not whole.snapshots:
            return None
        try:
            version = self._delta_version(relation, whole)
        except Exception:
            # If a successor is at work, that is the reason, however Delta puts it.
            with self.store.transaction() as tx:
                self._require_term(tx)
            raise
        self.delta.settle(
            relation.path, after=whole.base.version if whole.base else -1, upto=version
        )
        base = Base(epoch, relation.path, version)
        self._record(relation, whole, base)
        return base

    def _delta_version(self, relation: Relation, whole: Contents) -> int:
        """Return the Delta version that holds `whole`, made now or by a fold cut short."""
        path, stamp = relation.path, _stamp(relation, whole.as_of)
        found = self.delta.latest(path)
        if whole.base is None:
            created = _stamp(relation, ZERO)
            if found is None:
                self.failpoint("fold.before_create")
                self.delta.create(
                    path,
                    [f.path for f in whole.snapshots],
                    arrow_schema(relation.schema.columns),
                    stamp=created,
                    key=relation.schema.key[0],
                )
                self.failpoint("fold.after_create")
                found = self.delta.latest(path)
            assert found is not None
            recorded: int | None = None
        else:
            recorded = whole.base.version
        version, last = found if found is not None else (-1, None)
        ours = last is not None and last.startswith(_prefix(relation))
        if version != recorded and not ours:
            raise UnexpectedVersion(relation.name, recorded=recorded, found=version)
        # A fold cut short after its Delta commit: its log rows are merged in already, and merging
        # the same or later rows over them again gives the same table.
        if not whole.logs:
            return version
        self._merge_into(relation, whole, stamp)
        made = self.delta.find(path, stamp)
        if made is None:
            raise UnexpectedVersion(relation.name, recorded=recorded, found=version)
        return made

    def _merge_into(self, relation: Relation, whole: Contents, stamp: str) -> None:
        table = StateTable(self.spark, self.lake, relation)
        name = f"_tg_fold_{relation.id}"
        table.newest(whole).createOrReplaceTempView(name)
        same = " AND ".join(f"base.{quote(k)} <=> log.key.{quote(k)}" for k in relation.schema.key)
        sets = ", ".join(f"{quote(c)} = log.new.{quote(c)}" for c in relation.schema.names)
        names = ", ".join(quote(c) for c in relation.schema.names)
        values = ", ".join(f"log.new.{quote(c)}" for c in relation.schema.names)
        self.spark.conf.set(STAMP, stamp)
        # Delta skips a transaction it has seen: a folder that wakes up late cannot go back.
        self.spark.conf.set(TXN_APP, _prefix(relation).strip())
        self.spark.conf.set(TXN_VERSION, str(whole.as_of))
        self.failpoint("fold.before_delta")
        self.spark.sql(
            f"MERGE INTO delta.`{self.lake.uri(relation.path)}` AS base USING {name} AS log "
            f"ON {same} "
            f"WHEN MATCHED AND log.op = '{DELETE}' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED AND log.op <> '{DELETE}' THEN INSERT ({names}) VALUES ({values})"
        ).collect()
        if self._is_due_for_sorting(relation, whole.base):
            for setting, value in SORTING.items():
                self.spark.conf.set(setting, value)
            # In the order of its first key column; no row changes.
            first = quote(relation.schema.key[0])
            self.spark.sql(
                f"OPTIMIZE delta.`{self.lake.uri(relation.path)}` ZORDER BY ({first})"
            ).collect()
        self.failpoint("fold.after_delta")

    def _is_due_for_sorting(self, relation: Relation, base: Base | None) -> bool:
        """Every few versions, look whether MERGE has left files that all span the same keys.

        It shuffles what it touches by a hash of the key. Where the keys of a tick lie anywhere, all
        is touched again at once, so that a sorting for each fold would be for nothing.
        """
        made = self.delta.latest(relation.path)
        if made is None or base is None or made[0] // SORT_EVERY == base.version // SORT_EVERY:
            return False
        files = self.lake.version_files(relation.path, made[0], relation.schema.key[0])
        bounds = [(f.low, f.high) for f in files if f.low is not None and f.high is not None]
        return sum(f.bytes for f in files) >= self.sort_bytes and is_disordered(bounds)

    def _record(self, relation: Relation, whole: Contents, base: Base) -> None:
        self.failpoint("fold.before_record")
        with self.store.transaction() as tx:
            self._require_term(tx)
            tx.query("lock_relation", relation=relation.id)
            newest = listing(tx, relation).bases[:1]
            if list(newest) != ([whole.base] if whole.base else []):
                raise TermOver(self.term.graph, self.term.term)
            tx.execute(
                "insert_base",
                relation=relation.id,
                epoch=base.epoch,
                path=base.path,
                version=base.version,
            )
            self._unlist(tx, relation, base.epoch)
        self.failpoint("fold.after_record")

    def _unlist(self, tx: Statements, relation: Relation, now: Epoch) -> None:
        """Drop from the list what nobody needs, and forget bases that nobody can ask for."""
        listed = listing(tx, relation)
        bases = [b.epoch for b in listed.bases]
        pins = [Epoch(row["epoch"]) for row in tx.query("select_pins", relation=relation.id)]
        start = next_log_start(bases, pins, listed.log_start)
        if start is None:
            # Somebody still reads the table as it was before its first base.
            return
        tx.execute("unlist_files", files=[f.id for f in folded(listed.files, start)])
        # Between two bases the log is gone now: an epoch there must not be read from the older.
        tx.execute("set_log_start", relation=relation.id, epoch=start)
        horizon = epoch_at(unix_ms(now) - int(self.keep_s * 1000))
        gone = forgettable(bases, pins, start, horizon)
        tx.execute("forget_bases", relation=relation.id, epochs=gone)
        tx.execute("delete_forgotten_bases", relation=relation.id, grace_seconds=UNLISTED_SECONDS)

    def _require_term(self, tx: Statements) -> None:
        require_term(tx, self.term.graph, self.term.term)


def _prefix(relation: Relation) -> str:
    return f"tidegate {relation.pipeline}/{relation.name} epoch "


def _stamp(relation: Relation, epoch: Epoch) -> str:
    return f"{_prefix(relation)}{epoch}"
