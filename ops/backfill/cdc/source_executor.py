"""The source actor of a main graph: slot -> whole transactions -> one log file per table and epoch.

    between barriers    poll the slot, decode, gather; not while paused
    Barrier             say how much is gathered, collect
    Checkpoint          net what is whole, write a log file per changed table, take repairs in,
                        collect
    SyncCheckpoint      first send a message through the source and wait for it: whatever was
                        committed there before the flush was asked for is then in the epoch.
                        Not to pause or resume, nor while paused: it takes what is gathered
    after the commit    confirm the slot up to the committed position, never past it

When columns of a table change (`evolve`), no more is taken: the epoch ends before the transaction
that has the change, and the graph is made anew with the table as it is then.

A hole of a row that kept its key goes into the log as it is: readers have the row below at hand,
and a tick looks nothing up. A hole of a row whose key has changed is filled first (`row_versions`);
if from the source, a message follows, before which the table may not go live.

Arrow.
"""

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace

from ops.backfill.cdc.bound import binding
from ops.backfill.cdc.evolve import Origin, evolve
from ops.backfill.cdc.pg_values import reads_binary
from ops.backfill.cdc.pgoutput import RelationChanged, TableName
from ops.backfill.cdc.ports import ChangeStream, Versions
from ops.backfill.cdc.transaction_buffer import Batch, TransactionBuffer
from ops.backfill.cdc.verify.taking import RepairTaker, looked_up
from ops.backfill.cdc.versions import Bound, VersionDecoder, table_of
from ops.barrier_manager.manager import LocalBarrierManager
from ops.barrier_worker.reports import ChangedSchema, SourceOutput, TakenRepair
from ops.common.barrier import Barrier, BarrierKind, Pause
from ops.common.controls import Controls, apply
from ops.common.errors import ConsistencyError, TransientError
from ops.common.ports import Clock, Failpoint, Lake
from ops.common.table.key_range import ranges_of
from ops.common.table.log import log_table
from ops.common.table.net import (
    Net,
    fill_holes,
    moved_holes,
    net_changes,
    without_before_images,
)
from ops.common.table.relation import Relation, StagedFile

POLL_SECONDS = 0.05
FLUSH_SECONDS = 60.0
MAX_BUFFERED_ROWS = 2_000_000
"""Above this the slot is left alone until a checkpoint, which is then due, has taken it."""


class HoleNotFilled(ConsistencyError):
    def __init__(self, table: str, key: object) -> None:
        super().__init__(
            f"{table}: the row {key} has moved without its large value, and is not there under its "
            f"old key; run `tidegate verify {table}`"
        )


class FlushNotSeen(TransientError):
    def __init__(self, source: str) -> None:
        super().__init__(
            f"a flush was not seen in the stream of {source} for {FLUSH_SECONDS:.0f} s"
        )


class SourceExecutor:
    """One thread runs `run`; the worker asks `has_work` and calls `committed` from another."""

    def __init__(
        self,
        *,
        pipeline: str,
        source: str,
        stream: ChangeStream,
        emit_message: Callable[[str], int],
        versions: Versions,
        tables: Bound,
        committed_lsn: int,
        lake: Lake,
        clock: Clock,
        failpoint: Failpoint,
        forward: Callable[[Barrier, tuple[StagedFile, ...]], None],
        repairs: RepairTaker,
    ) -> None:
        self.actor = f"source/{source}"
        self._pipeline, self._source = pipeline, source
        self._stream, self._emit, self._versions = stream, emit_message, versions
        self._tables = {name: relation for name, (relation, _) in tables.items()}
        bound = {name: binding for name, (_, binding) in tables.items()}
        self._decoder = VersionDecoder(bound, binary=reads_binary(b.schema for b in bound.values()))
        self._buffer = TransactionBuffer(pipeline, committed_lsn)
        self._lake, self._clock, self._failpoint = lake, clock, failpoint
        self._forward, self._repairs = forward, repairs
        self._to_confirm: int | None = None
        self._lock = threading.Lock()
        self._controls = Controls()
        self._changed: list[ChangedSchema] = []
        """Not empty once the columns of a table have changed: the graph will be made anew."""
        self._begun = False
        """The Initial barrier has come, which may say that it is paused."""

    @property
    def has_work(self) -> bool:
        return self._buffer.transactions > 0 or bool(self._changed)

    @property
    def is_full(self) -> bool:
        """Say whether no more is taken from the slot before a checkpoint."""
        return self._buffer.rows > MAX_BUFFERED_ROWS and self._buffer.transactions > 0

    def committed(self, lsn: int) -> None:
        """Let the slot forget what is before `lsn`, which a commit has stored."""
        with self._lock:
            self._to_confirm = lsn

    def run(self, manager: LocalBarrierManager) -> None:
        barriers = manager.subscribe_barrier(self.actor)
        while True:
            manager.require_open()
            self._confirm()
            barrier = barriers.take(0.0)
            if barrier is None:
                self._poll()
                continue
            self._begun = True
            output = None
            if barrier.kind.is_checkpoint:
                if barrier.kind is BarrierKind.SYNC_CHECKPOINT and self._may_poll(barrier):
                    self._await_flush()
                output = self._close_epoch(barrier)
                self._forward(barrier, output.files)
            if barrier.mutation is not None:
                self._controls = apply(self._controls, barrier.mutation)
            buffer = self._buffer
            manager.report_source_offset(
                self.actor, barrier, self._source, rows=buffer.rows, lsn=buffer.end_lsn
            )
            manager.collect(self.actor, barrier, output)
            if barrier.stops_actor(self.actor):
                return

    def finish(self) -> None:
        """Confirm what the last commit stored, when no barrier will follow."""
        self._confirm()

    def _may_poll(self, barrier: Barrier) -> bool:
        return not self._controls.paused and not isinstance(barrier.mutation, Pause)

    def _poll(self) -> None:
        if self.is_full or self._controls.paused or not self._begun or self._changed:
            # The reader answers the server's keep-alives by itself.
            self._clock.sleep(POLL_SECONDS)
        else:
            self._read()

    def _read(self) -> None:
        for _, message in self._stream.poll(POLL_SECONDS):
            for event in self._decoder.decode(message):
                if isinstance(event, RelationChanged) and event.sent is not None:
                    followed = self._follow(event, event.sent)
                    if followed is not None:
                        self._buffer.add(followed)
                else:
                    self._buffer.add(event)

    def _follow(self, event: RelationChanged, sent: tuple[str, ...]) -> RelationChanged | None:
        """Go on with a table as it is now; if that cannot be, return why not."""
        relation = self._tables[event.table]
        assert relation.origin is not None
        origin, version = Origin.from_json(relation.origin), relation.schema_version + 1
        columns = self._versions.columns(origin.oid, origin.text_numerics)
        found = evolve(relation.schema, origin, sent, columns, version=version)
        if isinstance(found, str):
            return RelationChanged(event.table, found)
        if found.schema == relation.schema and found.origin.names == origin.names:
            # It leaves a new column out, or the message is older than the change it came with.
            same = replace(relation, origin=found.origin.to_json())
            self._tables[event.table] = same
            again = self._decoder.bind(event.table, binding(same, found))
            return None if again is None else RelationChanged(event.table, again.why)
        self._buffer.halt()
        self._changed.append(
            ChangedSchema(relation.id, version, found.schema.to_json(), found.origin.to_json())
        )
        return None

    def _await_flush(self) -> None:
        token = uuid.uuid4().hex
        self._failpoint("flush.before_message")
        self._emit(f'{{"flush": "{token}"}}')
        self._failpoint("flush.after_message")
        deadline = self._clock.monotonic() + FLUSH_SECONDS
        while not self._buffer.has_flush(token) and not self._changed:
            if self._clock.monotonic() > deadline:
                raise FlushNotSeen(self._source)
            # Also with a full buffer: what is waited for lies behind it.
            self._read()

    def _close_epoch(self, barrier: Barrier) -> SourceOutput:
        # Asked before the batch is cut: a position is safe only if nothing lies before it unseen.
        quiet = self._stream.keepalive_position() if self._buffer.idle else None
        batch = self._buffer.take()
        fills: dict[int, int] = {}
        truncated = [self._tables[name] for name in batch.truncated if name in self._tables]
        stopped = {self._tables[n].id: why for n, why in batch.stopped.items() if n in self._tables}
        for name in batch.stopped:
            self._tables.pop(name, None)
            self._decoder.unbind(name)
        files, repairs = self._files(barrier, batch, fills)
        return SourceOutput(
            self._source,
            tuple(files),
            batch.end_lsn if batch.end_lsn is not None else quiet,
            tuple(batch.watermarks),
            stopped,
            batch.rows,
            batch.commit_ts_micros,
            repairs=tuple(repairs),
            truncated={relation.id: relation.graph for relation in truncated},
            filled=fills,
            relations=tuple(relation.id for relation in self._tables.values()),
            changed=tuple(self._changed),
            flushed=not self._changed,
        )

    def _files(
        self, barrier: Barrier, batch: Batch, fills: dict[int, int]
    ) -> tuple[list[StagedFile], list[TakenRepair]]:
        """Write what the epoch does to each table: what the source changed, what was repaired."""
        files: list[StagedFile] = []
        repairs: list[TakenRepair] = []
        wanted = self._repairs.look()
        for name, relation in self._tables.items():
            asked = wanted.get(relation.id)
            net = self._net(relation, batch, name)
            read_upto = self._fill(relation, name, net)
            if read_upto is not None:
                fills[relation.id] = read_upto
            truncates = name in batch.truncated
            if asked is not None and truncates:
                repairs += [TakenRepair(r.id, relation.id, None) for r in asked.repairs]
            elif asked is not None:
                more, taken = self._repairs.take(relation, asked, net.keys(), barrier)
                files += more
                repairs += taken
            if net or truncates:
                believed = looked_up(net) if asked is not None and asked.looks_up_old else net
                files.append(self._write(barrier, relation, believed, truncates=truncates))
        return files, repairs

    def _net(self, relation: Relation, batch: Batch, name: TableName) -> Net:
        net = net_changes(batch.changes.get(name, ()), relation.schema.key_reader())
        return without_before_images(net) if relation.is_partial else net

    def _write(
        self, barrier: Barrier, relation: Relation, net: Net, *, truncates: bool
    ) -> StagedFile:
        assert barrier.attempt is not None
        table = log_table(
            net, relation.schema, vnode_count=relation.vnode_count, epoch=barrier.epoch.prev
        )
        path = f"{barrier.attempt.directory}/{relation.label.replace('/', '-')}-log.parquet"
        self._failpoint("tick.before_log_write")
        size = self._lake.write(path, table)
        self._failpoint("tick.after_log_write")
        unknown = sum(not row.known for row in net.values())
        ranges = ranges_of((key[0] for key in net), relation.schema.key_columns[0].type)
        return StagedFile(
            relation.id,
            barrier.attempt.id,
            "log",
            path,
            len(net),
            size,
            unknown,
            ranges,
            truncates=truncates,
            hole_rows=sum(bool(row.holes) for row in net.values()),
            schema_version=relation.schema_version,
        )

    def _fill(self, relation: Relation, name: TableName, net: Net) -> int | None:
        """Fill the holes of rows whose key has changed; of a table without all rows, every hole.

        Returns where the stream must come before the table may go live: rows were read from the
        source. None if none were, or the table is live.
        """
        moved = {k: r for k, r in net.items() if r.holes} if relation.is_partial else None
        moved = moved_holes(net) if moved is None else moved
        if not moved:
            return None
        origins = [row.origin for row in moved.values() if row.origin is not None]
        found = self._versions.before(relation, origins)
        is_live = found is not None
        if found is not None:
            fill_holes([row for row in moved.values() if row.origin in found], found)
            moved = {key: row for key, row in moved.items() if row.holes}
            if moved and not relation.is_partial:
                raise HoleNotFilled(relation.name, next(iter(moved)))
        if not moved:
            return None
        read = self._versions.now(table_of(name), relation.schema, list(moved))
        by_origin = {row.origin: read[key] for key, row in moved.items() if key in read}
        fill_holes(moved.values(), {k: row for k, row in by_origin.items() if k is not None})
        if is_live:
            return None
        self._failpoint("fill.before_message")
        lsn = self._emit(json.dumps({"filled": relation.name}))
        self._failpoint("fill.after_message")
        return lsn

    def _confirm(self) -> None:
        with self._lock:
            lsn, self._to_confirm = self._to_confirm, None
        if lsn is not None:
            self._failpoint("tick.before_confirm")
            self._stream.confirm(lsn)
            self._failpoint("tick.after_confirm")
