"""The source's events, gathered into whole transactions until a barrier closes the epoch.

An epoch takes only transactions whose commit has arrived. At a TRUNCATE the earlier changes of the
epoch vanish. An event that must not be guessed about (a changed relation, an undecodable value)
stops its table: from the epoch in which it arrives the table takes no more changes, and the others
go on.

Pure.
"""

import json
from dataclasses import dataclass, field
from typing import assert_never

from ops.backfill.cdc.pgoutput import (
    Begin,
    Commit,
    Event,
    LogicalMessage,
    Poisoned,
    RelationChanged,
    RowChange,
    TableName,
    Truncated,
)
from ops.barrier_worker.reports import PassedWatermark
from ops.common.change import Change
from ops.common.epoch import Epoch
from ops.common.errors import OffsetWentBackwards

PREFIX = "tidegate"


@dataclass(slots=True)
class Batch:
    """Whole transactions: changes per table in order, and where the stream stands after them.

    The changes of a table in `truncated` are those after its last TRUNCATE.
    """

    changes: dict[TableName, list[Change]] = field(default_factory=dict)
    truncated: set[TableName] = field(default_factory=set)
    watermarks: list[PassedWatermark] = field(default_factory=list)
    flushes: set[str] = field(default_factory=set)
    stopped: dict[TableName, str] = field(default_factory=dict)
    end_lsn: int | None = None
    commit_ts_micros: int | None = None
    transactions: int = 0
    rows: int = 0


class TransactionBuffer:
    """`committed_lsn` is the end of the last transaction that is committed already."""

    def __init__(self, pipeline: str, committed_lsn: int) -> None:
        self._pipeline = pipeline
        self._committed = committed_lsn
        self._closed = Batch()
        self._open: list[Event] = []
        self._inside = False
        self._halted = False

    @property
    def idle(self) -> bool:
        """Nothing is waiting: neither a whole transaction nor the beginning of one."""
        return not self._inside and self._closed.transactions == 0

    @property
    def rows(self) -> int:
        return self._closed.rows + len(self._open)

    @property
    def transactions(self) -> int:
        return self._closed.transactions

    @property
    def end_lsn(self) -> int | None:
        """Return where the whole transactions that wait end."""
        return self._closed.end_lsn

    def has_flush(self, token: str) -> bool:
        return token in self._closed.flushes

    def halt(self) -> None:
        """Take no more: the transaction that is open comes again, to a decoder that fits it."""
        self._halted = True

    def add(self, event: Event) -> None:
        if self._halted:
            return
        match event:
            case Begin():
                self._inside = True
                self._open = []
            case Commit(_, end_lsn, commit_ts):
                self._inside = False
                self._close(end_lsn, commit_ts)
            case RelationChanged(table, why):
                self._closed.stopped.setdefault(table, why)
            case RowChange() | Truncated() | Poisoned() | LogicalMessage():
                if self._inside:
                    self._open.append(event)
            case _:
                assert_never(event)

    def take(self) -> Batch:
        """Return the whole transactions gathered so far and begin anew."""
        batch, self._closed = self._closed, Batch()
        for table in batch.stopped:
            batch.changes.pop(table, None)
            batch.truncated.discard(table)
        if batch.end_lsn is not None:
            self._committed = batch.end_lsn
        return batch

    def _close(self, end_lsn: int, commit_ts: int) -> None:
        events, self._open = self._open, []
        if end_lsn <= self._committed:
            # Delivered again after a restart: it is committed already.
            return
        batch = self._closed
        if batch.end_lsn is not None and end_lsn < batch.end_lsn:
            raise OffsetWentBackwards(committed=batch.end_lsn, found=end_lsn)
        batch.end_lsn, batch.commit_ts_micros = end_lsn, commit_ts
        batch.transactions += 1
        changes = batch.changes
        for event in events:
            match event:
                case RowChange(table, change):
                    changes.setdefault(table, []).append(change)
                    batch.rows += 1
                case Truncated(tables):
                    for table in tables:
                        batch.rows -= len(changes.get(table, ()))
                        changes[table] = []
                        batch.truncated.add(table)
                case Poisoned(table, why):
                    batch.stopped.setdefault(table, why)
                case LogicalMessage(prefix=prefix, content=content):
                    if prefix == PREFIX:
                        self._message(batch, content)

    def _message(self, batch: Batch, content: bytes) -> None:
        try:
            said = json.loads(content)
        except ValueError:
            # Anybody may send a message under our prefix; one that is not ours stops nothing.
            return
        match said:
            case {
                "graph": str(graph),
                "generation": int(generation),
                "term": int(term),
                "epoch": int(epoch),
            }:
                # Other pipelines may share the database and its messages.
                if graph.startswith(f"{self._pipeline}/"):
                    mark = PassedWatermark(graph, generation, term, Epoch(epoch))
                    batch.watermarks.append(mark)
            case {"flush": str(token)}:
                batch.flushes.add(token)
