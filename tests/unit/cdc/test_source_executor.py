"""What the source actor does at each kind of barrier, and when it leaves the slot alone."""

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ops.backfill.cdc import source_executor
from ops.backfill.cdc.source_executor import SourceExecutor
from ops.barrier_manager.events import ActorCollected, CdcSourceOffsetUpdated
from ops.barrier_manager.manager import GraphReset, LocalBarrierManager
from ops.barrier_worker.reports import SourceOutput
from ops.common.barrier import Attempt, Barrier, BarrierKind, Mutation, Pause, Resume
from ops.common.epoch import Epoch, EpochPair
from resources.clock import SystemClock

BEGIN = b"B" + struct.pack(">qqi", 0, 0, 1)


def commit(end: int) -> bytes:
    return b"C" + struct.pack(">bqqq", 0, end, end, 0)


class FakeStream:
    """Hands out what is put into `waiting`; counts how often it is asked."""

    def __init__(self) -> None:
        self.waiting: list[bytes] = []
        self.polls = 0

    def poll(self, timeout_s: float) -> list[tuple[int, bytes]]:
        self.polls += 1
        time.sleep(0.001)
        found, self.waiting = self.waiting, []
        return [(0, message) for message in found]

    def keepalive_position(self) -> int | None:
        return None

    def confirm(self, lsn: int) -> None:
        pass


class NothingToRepair:
    def look(self) -> dict[int, Any]:
        return {}


class Running:
    def __init__(self) -> None:
        self.stream = FakeStream()
        self.manager = LocalBarrierManager("g", ("source/s",))
        self.flushes: list[str] = []
        self.epoch = 0
        stream: Any = self.stream
        self.actor = SourceExecutor(
            pipeline="p",
            source="s",
            stream=stream,
            emit_message=self._emit,
            tables={},
            committed_lsn=0,
            lake=None,  # type: ignore[arg-type]  (nothing is written)
            clock=SystemClock(),
            failpoint=lambda _: None,
            forward=lambda barrier, files: None,
            repairs=NothingToRepair(),  # type: ignore[arg-type]
        )

    def _emit(self, said: str) -> int:
        self.flushes.append(said)
        content = said.encode()
        message = b"M" + struct.pack(">bq", 1, 0) + b"tidegate\0"
        message += struct.pack(">i", len(content)) + content
        end = 10_000 + len(self.flushes)
        self.stream.waiting += [BEGIN, message, commit(end)]
        return end

    def run(self) -> None:
        try:
            self.actor.run(self.manager)
        except GraphReset:
            pass
        except BaseException as error:
            self.manager.notify_failure("source/s", error)

    def send(
        self, kind: BarrierKind, mutation: Mutation | None = None
    ) -> tuple[CdcSourceOffsetUpdated, SourceOutput | None]:
        """Return what the actor reports and collects for a barrier."""
        pair = EpochPair(curr=Epoch(self.epoch + 1), prev=Epoch(self.epoch))
        self.epoch += 1
        attempt = Attempt(1, "d") if kind.is_checkpoint else None
        self.manager.send(Barrier(pair, kind, mutation, attempt))
        report, collected = (self.manager.next_event(5.0) for _ in range(2))
        assert isinstance(report, CdcSourceOffsetUpdated), report
        assert isinstance(collected, ActorCollected), collected
        assert collected.output is None or isinstance(collected.output, SourceOutput)
        return report, collected.output

    def polled_meanwhile(self) -> bool:
        before = self.stream.polls
        time.sleep(3 * source_executor.POLL_SECONDS)
        return self.stream.polls > before + 1


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(source_executor, "POLL_SECONDS", 0.01)
    with started(Running()) as made:
        yield made


@contextmanager
def started(made: Running) -> Iterator[Running]:
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    yield made
    made.manager.close()
    thread.join(5)
    assert not thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def test_it_polls_from_its_first_barrier_on(running: Running) -> None:
    assert not running.polled_meanwhile() and running.stream.polls == 0
    running.send(BarrierKind.INITIAL)
    assert running.polled_meanwhile()


def test_at_a_barrier_it_says_what_waits_and_keeps_it(running: Running) -> None:
    running.send(BarrierKind.INITIAL)
    running.stream.waiting = [BEGIN, commit(50), BEGIN, commit(60)]
    until(lambda: running.actor.has_work)
    for _ in range(2):
        report, output = running.send(BarrierKind.BARRIER)
        assert report.lsn == 60 and output is None and running.actor.has_work
    report, output = running.send(BarrierKind.CHECKPOINT)
    assert output is not None and output.end_lsn == 60
    assert report.lsn is None and not running.actor.has_work
    assert running.flushes == []


def test_paused_it_leaves_the_slot_alone(running: Running) -> None:
    running.send(BarrierKind.INITIAL)
    running.stream.waiting = [BEGIN, commit(50)]
    until(lambda: running.actor.has_work)
    _, output = running.send(BarrierKind.SYNC_CHECKPOINT, Pause())
    assert output is not None and output.end_lsn == 50, "what was gathered is taken"
    assert running.flushes == [], "a source in trouble can be paused"
    assert not running.polled_meanwhile()
    running.send(BarrierKind.SYNC_CHECKPOINT)
    assert running.flushes == [] and not running.polled_meanwhile()
    running.send(BarrierKind.SYNC_CHECKPOINT, Resume())
    assert running.flushes == [] and running.polled_meanwhile()


def test_it_starts_paused(running: Running) -> None:
    running.send(BarrierKind.INITIAL, Pause())
    assert not running.polled_meanwhile() and running.stream.polls == 0


def test_a_sync_checkpoint_awaits_its_own_message_even_when_full(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_executor, "MAX_BUFFERED_ROWS", -1)
    running.send(BarrierKind.INITIAL)
    running.stream.waiting = [BEGIN, commit(50)]
    until(lambda: running.actor.is_full)
    assert not running.polled_meanwhile()
    _, output = running.send(BarrierKind.SYNC_CHECKPOINT)
    assert output is not None and output.end_lsn == 10_001 and len(running.flushes) == 1
