"""How the source actor takes a repair in: at a checkpoint, less the keys that events came for.

    staged     differences found at the pinned epoch `since`, as a log file
    taken      a log file of this epoch: the staged rows whose key neither the log after `since`
               nor this epoch's own changes name

A later event of a key says what the row is now, and the repair must not undo it. What is left was
not touched since `since`, so its `old` is still what the table holds. While a table may differ from
its source, `old` as an event tells it is not what the table holds: it is left to be looked up.

Arrow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ops.backfill.cdc.verify.ranges import Key
from ops.barrier_worker.reports import TakenRepair
from ops.common.arrow import arrow_schema
from ops.common.barrier import Barrier
from ops.common.epoch import Epoch
from ops.common.errors import EpochGone
from ops.common.ports import Failpoint, Lake, Statements
from ops.common.schema import Schema
from ops.common.table.key_range import ranges_of
from ops.common.table.net import Net
from ops.common.table.relation import Relation, StagedFile, changed_files, listing

LATEST = Epoch(2**63 - 1)
MAX_ROWS = 500_000
"""No more rows of repairs than this go into one epoch, but one file always does."""


@dataclass(frozen=True, slots=True)
class PendingRepair:
    id: int
    path: str
    since: Epoch
    rows: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the store says of one table at a checkpoint."""

    looks_up_old: bool
    repairs: tuple[PendingRepair, ...]


@dataclass(frozen=True)
class RepairTaker:
    pipeline: str
    store: Statements
    lake: Lake
    failpoint: Failpoint

    def look(self) -> Mapping[int, Wanted]:
        """Return the tables that something is wanted of, by id; asked at each checkpoint."""
        rows = self.store.query("select_repairs", pipeline=self.pipeline)
        return {
            row["relation"]: Wanted(
                row["looks_up_old"], tuple(PendingRepair(**repair) for repair in row["repairs"])
            )
            for row in rows
        }

    def take(
        self, relation: Relation, wanted: Wanted, net: Collection[Key], barrier: Barrier
    ) -> tuple[list[StagedFile], list[TakenRepair]]:
        """Stage what of a table's repairs is still wrong; `net` names the keys of this epoch."""
        files: list[StagedFile] = []
        taken: list[TakenRepair] = []
        for number, repair in enumerate(wanted.repairs):
            if number and sum(r.rows for r in wanted.repairs[: number + 1]) > MAX_ROWS:
                break
            rows = self._rows(relation, repair, net)
            if rows is not None and rows.num_rows:
                files.append(self._stage(relation, repair, rows, barrier))
            taken.append(TakenRepair(repair.id, relation.id, None if rows is None else len(rows)))
        return files, taken

    def _rows(
        self, relation: Relation, repair: PendingRepair, net: Collection[Key]
    ) -> pa.Table | None:
        """Return the rows that may be written; None if they no longer fit the table."""
        staged = self.lake.read(repair.path)
        if staged.schema.field("new").type != pa.struct(arrow_schema(relation.schema.columns)):
            return None
        try:
            listed = listing(self.store, relation)
            since = changed_files(relation, listed, repair.since, LATEST)
        except EpochGone:
            return None
        keys = _key_schema(relation.schema)
        named = [self.lake.read(f.path, ["key"]).column("key") for f in since]
        chunks = [chunk for column in named for chunk in column.chunks]
        own = pa.array([dict(zip(keys.names, key, strict=True)) for key in net], pa.struct(keys))
        return not_named(staged, [*chunks, own], relation.schema)

    def _stage(
        self, relation: Relation, repair: PendingRepair, rows: pa.Table, barrier: Barrier
    ) -> StagedFile:
        assert barrier.attempt is not None
        epochs = pa.array([barrier.epoch.prev] * len(rows), pa.int64())
        log = rows.set_column(rows.column_names.index("epoch"), "epoch", epochs)
        path = f"{barrier.attempt.directory}/{relation.name}-repair-{repair.id}.parquet"
        self.failpoint("repair.before_log_write")
        size = self.lake.write(path, log)
        self.failpoint("repair.after_log_write")
        return StagedFile(
            relation.id,
            barrier.attempt.id,
            "log",
            path,
            len(log),
            size,
            key_ranges=ranges_of(_first_parts(log, relation.schema), _first_type(relation.schema)),
        )


def not_named(staged: pa.Table, named: Sequence[pa.StructArray], schema: Schema) -> pa.Table:
    """Return the rows whose key is none of `named`. Same law as `settled.still_wrong`."""
    keys = _key_schema(schema)
    names = [f"k{i}" for i in range(len(keys))]

    def columns(structs: Sequence[pa.StructArray]) -> dict[str, Any]:
        fields = [[array.field(i) for array in structs] for i in range(len(keys))]
        return {
            name: pa.chunked_array([_cast(a, keys.field(i).type) for a in arrays], keys.types[i])
            for i, (name, arrays) in enumerate(zip(names, fields, strict=True))
        }

    if not len(staged) or not any(len(array) for array in named):
        return staged
    places = pa.array(range(len(staged)), pa.int64())
    rows = pa.table({**columns(staged.column("key").chunks), "place": places})
    kept = rows.join(pa.table(columns(named)), keys=names, join_type="left anti")
    return staged.take(kept.column("place").sort())


def looked_up(net: Net) -> Net:
    """Return the same changes with nothing said about what was before them."""
    return {key: replace(row, known=False, old=None) for key, row in net.items()}


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else array.cast(wanted)


def _key_schema(schema: Schema) -> pa.Schema:
    return arrow_schema(schema.key_columns)


def _first_type(schema: Schema) -> Any:
    return schema.key_columns[0].type


def _first_parts(log: pa.Table, schema: Schema) -> list[Any]:
    first = pa.chunked_array([chunk.field(0) for chunk in log.column("key").chunks])
    if pa.types.is_date32(first.type):
        first = first.cast(pa.int32())
    return list(first.to_pylist())
