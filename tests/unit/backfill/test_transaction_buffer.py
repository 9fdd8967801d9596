"""Whole transactions only, each once; what must not be guessed about stops its table alone."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.pgoutput import (
    Begin,
    Commit,
    Event,
    LogicalMessage,
    Poisoned,
    RelationChanged,
    RowChange,
    Truncated,
)
from ops.backfill.cdc.transaction_buffer import Batch, TransactionBuffer
from ops.barrier_worker.reports import PassedWatermark
from ops.common.change import Insert
from ops.common.epoch import Epoch
from ops.common.errors import OffsetWentBackwards

T, U = ("public", "t"), ("public", "u")


def row(value: int, table: tuple[str, str] = T) -> RowChange:
    return RowChange(table, Insert((value,)))


def transaction(end: int, *events: Event) -> list[Event]:
    return [Begin(end - 1, end, end), *events, Commit(end - 1, end, end * 1000)]


def message(said: object, prefix: str = "tidegate") -> LogicalMessage:
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    return LogicalMessage(True, 1, prefix, content)


def fed(*events: Event, committed: int = 0) -> TransactionBuffer:
    buffer = TransactionBuffer("p", committed)
    for event in events:
        buffer.add(event)
    return buffer


def values(batch: Batch, table: tuple[str, str] = T) -> list[int]:
    return [c.row[0] for c in batch.changes.get(table, []) if isinstance(c, Insert)]


@given(st.data())
def test_cut_anywhere_each_transaction_comes_whole_and_once(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    ends = [10 * (n + 1) for n in range(len(sizes))]
    whole = {end: [100 * end + i for i in range(n)] for end, n in zip(ends, sizes, strict=True)}
    committed = data.draw(st.sampled_from([0, *ends]))
    buffer = TransactionBuffer("p", committed)
    taken: list[int] = []
    last = committed
    for end, expected in whole.items():
        for event in transaction(end, *(row(v) for v in expected)):
            buffer.add(event)
            if data.draw(st.booleans()):
                batch = buffer.take()
                # What was taken ends where the batch says it does.
                last = batch.end_lsn or last
                taken += values(batch)
                passed = [v for e, vs in whole.items() if committed < e <= last for v in vs]
                assert taken == passed
    taken += values(buffer.take())
    assert taken == [v for e, vs in whole.items() if e > committed for v in vs]


def test_an_open_transaction_waits() -> None:
    buffer = fed(*transaction(10, row(1)), Begin(19, 0, 2), row(2))
    assert buffer.transactions == 1 and buffer.rows == 2 and not buffer.idle
    batch = buffer.take()
    assert values(batch) == [1] and batch.end_lsn == 10 and batch.transactions == 1
    assert batch.commit_ts_micros == 10_000
    assert not buffer.idle, "it is inside a transaction"
    assert buffer.take().end_lsn is None
    buffer.add(Commit(19, 20, 5))
    batch = buffer.take()
    assert values(batch) == [2] and batch.end_lsn == 20
    assert buffer.idle


def test_what_is_committed_is_skipped_when_it_comes_again() -> None:
    poison = Poisoned(T, "column n: NaN")
    stopping = [*transaction(20, Truncated((T,)), poison), *transaction(30, row(3))]
    buffer = fed(*transaction(10, row(1)), *stopping, committed=20)
    batch = buffer.take()
    assert values(batch) == [3] and batch.transactions == 1
    assert batch.stopped == {} and batch.truncated == set()


def test_a_taken_batch_counts_as_committed() -> None:
    buffer = fed(*transaction(10, row(1)))
    buffer.take()
    for event in transaction(10, row(1)):
        buffer.add(event)
    assert buffer.idle and values(buffer.take()) == []


def test_a_position_that_goes_back_is_refused() -> None:
    with pytest.raises(OffsetWentBackwards) as refused:
        fed(*transaction(30, row(3)), *transaction(20, row(2)))
    assert (refused.value.committed, refused.value.found) == (30, 20)


def test_an_empty_transaction_moves_the_position() -> None:
    batch = fed(*transaction(10)).take()
    assert batch.end_lsn == 10 and batch.transactions == 1 and batch.changes == {}


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Poisoned(T, "column n: NaN"), "column n: NaN"),
        (RelationChanged(T, "column x was added"), "column x was added"),
    ],
)
def test_what_stops_a_table_stops_only_it(event: Event, why: str) -> None:
    buffer = fed(
        *transaction(10, row(1), row(1, U)),
        *transaction(20, row(2), event, row(2, U)),
        *transaction(30, row(3), row(3, U)),
    )
    batch = buffer.take()
    assert batch.stopped == {T: why}
    assert T not in batch.changes
    assert values(batch, U) == [1, 2, 3] and batch.end_lsn == 30


def test_the_first_reason_stays() -> None:
    batch = fed(*transaction(10, Poisoned(T, "first"), Poisoned(T, "second"))).take()
    assert batch.stopped == {T: "first"}


def test_a_truncate_ends_the_earlier_changes_of_the_epoch() -> None:
    """Several in one epoch, one with a cascade, one followed by rows of its own transaction."""
    buffer = fed(
        *transaction(10, row(1), row(1, U)),
        *transaction(20, row(2), Truncated((T, U)), row(3), row(3, U)),
        *transaction(30, Truncated((T,)), row(4)),
        *transaction(40, row(5), row(5, U)),
    )
    assert buffer.rows == 4
    batch = buffer.take()
    assert batch.truncated == {T, U} and batch.stopped == {}
    assert values(batch) == [4, 5] and values(batch, U) == [3, 5]
    assert buffer.take().truncated == set()


def test_a_truncate_of_an_open_transaction_waits() -> None:
    buffer = fed(*transaction(10, row(1)), Begin(19, 0, 2), Truncated((T,)))
    batch = buffer.take()
    assert values(batch) == [1] and batch.truncated == set()
    buffer.add(Commit(19, 20, 5))
    assert buffer.take().truncated == {T}


def test_watermarks_of_this_pipeline_are_kept() -> None:
    said = {"graph": "p/t", "generation": 3, "term": 4, "epoch": 77}
    elsewhere = {**said, "graph": "pp/t"}
    buffer = fed(
        *transaction(10, message(said), message(elsewhere), message(said, prefix="other")),
    )
    assert buffer.take().watermarks == [PassedWatermark("p/t", 3, 4, Epoch(77))]


def test_a_watermark_waits_for_its_commit() -> None:
    buffer = fed(Begin(9, 0, 1), message({"graph": "p/t", "generation": 1, "term": 2, "epoch": 5}))
    assert buffer.take().watermarks == []
    buffer.add(Commit(9, 10, 0))
    assert buffer.take().watermarks == [PassedWatermark("p/t", 1, 2, Epoch(5))]


def test_a_flush_is_seen_until_it_is_taken() -> None:
    buffer = fed(Begin(9, 0, 1), message({"flush": "token"}))
    assert not buffer.has_flush("token")
    buffer.add(Commit(9, 10, 0))
    assert buffer.has_flush("token") and not buffer.has_flush("other")
    assert buffer.take().flushes == {"token"}
    assert not buffer.has_flush("token")


@pytest.mark.parametrize("said", [b"hello", b"\xff", [1], {"flush": 7}, {"graph": "p/t"}])
def test_a_message_nobody_of_us_sent_is_nothing(said: object) -> None:
    batch = fed(*transaction(10, message(said), row(1))).take()
    assert values(batch) == [1] and batch.watermarks == [] and batch.flushes == set()


def test_a_message_outside_a_transaction_is_nothing() -> None:
    buffer = fed(message({"flush": "token"}))
    assert buffer.idle and not buffer.has_flush("token")
