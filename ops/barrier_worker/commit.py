"""The one commit point: epoch, files, offsets and progress become visible in one transaction.

It is guarded by the graph's term and by each attempt not being retired. If the connection is lost
while COMMIT is under way, the store is asked what happened; the row lock waits out a transaction
that is still running there.

Pure.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.errors import AttemptRetired, TermOver, is_transient
from ops.common.ports import Failpoint, Statements, Store, unarmed
from ops.common.table.relation import StagedFile

ASK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class EpochCommit:
    graph: str
    term: int
    prev: Epoch
    epoch: Epoch
    attempts: Sequence[int]
    files: Sequence[StagedFile]
    offsets: Mapping[str, Any] | None = None


def open_attempt(
    store: Store, graph: str, term: int, parent: str, *, failpoint: Failpoint = unarmed
) -> Attempt:
    """Register an attempt before its first write; its directory below `parent` is its own."""
    directory = f"{parent}/{uuid.uuid4().hex}"
    failpoint("attempt.before_register")
    rows = store.query("insert_attempt", graph=graph, term=term, directory=directory)
    failpoint("attempt.after_register")
    if not rows:
        raise TermOver(graph, term)
    return Attempt(int(rows[0]["id"]), directory)


def fail_attempt(store: Store, attempt: Attempt, *, failpoint: Failpoint = unarmed) -> None:
    """Give the attempt's files to the collector at once, and not when the term is over."""
    failpoint("attempt.before_fail")
    store.execute("fail_attempt", attempt=attempt.id)
    failpoint("attempt.after_fail")


def commit_epoch(
    store: Store,
    commit: EpochCommit,
    *,
    failpoint: Failpoint,
    name: str,
    also: Callable[[Statements], None] = lambda _: None,
) -> None:
    """Commit; `also` adds the statements that belong to the same transaction."""
    failpoint(f"{name}.before_commit")
    try:
        with store.transaction() as tx:
            _advance(tx, commit)
            also(tx)
    except Exception as error:
        if not getattr(error, "commit_unknown", False):
            raise
        if not _landed(store, commit):
            raise
    failpoint(f"{name}.after_commit")


def _advance(tx: Statements, commit: EpochCommit) -> None:
    touched = tx.execute(
        "advance_graph",
        graph=commit.graph,
        epoch=commit.epoch,
        prev=commit.prev,
        term=commit.term,
    )
    if touched != 1:
        raise TermOver(commit.graph, commit.term)
    for attempt in commit.attempts:
        if not tx.execute("commit_attempt", attempt=attempt, graph=commit.graph, term=commit.term):
            raise AttemptRetired(attempt)
    tx.execute(
        "insert_epoch",
        graph=commit.graph,
        epoch=commit.epoch,
        prev=commit.prev,
        term=commit.term,
        rows=sum(f.rows for f in commit.files),
        offsets=dict(commit.offsets) if commit.offsets is not None else None,
    )
    for file in commit.files:
        after = commit.prev if file.after is None else file.after
        list_file(tx, file, after=after, epoch=commit.epoch)


def list_file(tx: Statements, file: StagedFile, *, after: Epoch, epoch: Epoch) -> None:
    tx.execute(
        "insert_file",
        relation=file.relation,
        attempt=file.attempt,
        kind=file.kind,
        after_epoch=after,
        epoch=epoch,
        path=file.path,
        rows=file.rows,
        bytes=file.bytes,
        unknown_rows=file.unknown_rows,
        hole_rows=file.hole_rows,
        truncates=file.truncates,
        schema_version=file.schema_version,
        key_ranges=None if file.key_ranges is None else json.dumps(file.key_ranges),
    )


def _landed(store: Store, commit: EpochCommit) -> bool:
    """Ask the store, for a minute at most, whether a commit of unknown outcome happened."""
    deadline = time.monotonic() + ASK_SECONDS
    while True:
        try:
            with store.transaction() as tx:
                tx.query("lock_graph", graph=commit.graph)
                rows = tx.query("select_epoch", graph=commit.graph, epoch=commit.epoch)
                return any(row["term"] == commit.term for row in rows)
        except Exception as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.5)
