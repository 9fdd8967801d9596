"""A limit is kept within a tenth, whoever reads; a pause holds within a page."""

import heapq
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.gate import BackfillGate
from ops.backfill.rate_limit import TokenBucket
from ops.common.barrier import Pause, Resume, Throttle
from ops.common.controls import Controls
from resources.clock import ManualClock, SystemClock


@given(
    rate=st.integers(1, 1_000_000),
    readers=st.integers(1, 8),
    page=st.integers(1, 500_000),
    seconds=st.floats(0.0, 2.0),
    late=st.floats(0.0, 0.2),
    short=st.integers(0, 3),
)
def test_the_rate_is_kept(
    rate: int, readers: int, page: int, seconds: float, late: float, short: int
) -> None:
    """Simulated: each reader waits for its moment, wakes up late, and needs time for a page."""
    bucket, read, upto = TokenBucket(rate), 0, 30.0
    turns = [(0.0, reader) for reader in range(readers)]
    took, rows = 0.0, bucket.page_rows(page)
    while turns[0][0] < upto:
        now, reader = heapq.heappop(turns)
        moment = bucket.reserve(rows, now)
        begins = max(now, moment + late)
        found = max(0, rows - short)
        bucket.refund(rows - found)
        read += found
        took = max(took, begins)
        heapq.heappush(turns, (begins + seconds / 10 + 1e-3, reader))
        if read > 500 * rows:
            break
    # Never more than asked for, but for the slack and the pages that have just begun.
    assert read <= rate * (took + 0.25) * 1.0001 + readers * rows


@pytest.mark.parametrize("rate", [1, 10, 1000, 50_000])
def test_a_busy_reader_gets_its_rate(rate: int) -> None:
    bucket, now, read = TokenBucket(rate), 0.0, 0
    while now < 100:
        rows = bucket.page_rows(1_000_000)
        now = max(now, bucket.reserve(rows, now)) + 0.02  # wakes up a little late
        read += rows
    assert read == pytest.approx(rate * now, rel=0.1)


def test_there_is_no_burst_after_a_rest() -> None:
    bucket = TokenBucket(100)
    bucket.reserve(100, 0.0)
    moments = [bucket.reserve(100, 1000.0) for _ in range(3)]
    assert moments == [999.75, 1000.75, 1001.75]


def test_pages_shrink_with_the_rate() -> None:
    assert [TokenBucket(r).page_rows(500) for r in (1, 20, 500, 10_000)] == [1, 10, 250, 500]


class Wanted:
    def __init__(self) -> None:
        self.controls = Controls()

    def __call__(self) -> Controls:
        return self.controls


def test_without_limit_a_page_is_admitted_at_once() -> None:
    gate = BackfillGate("t", Wanted(), ManualClock())
    admitted = gate.admit(500)
    assert admitted is not None and (admitted.rows, admitted.bucket) == (500, None)


def test_a_limit_is_kept_by_threads_in_real_time() -> None:
    wanted = Wanted()
    wanted.controls = Controls(False, 20_000)
    gate = BackfillGate("t", wanted, SystemClock())
    assert gate.look() == [Throttle("t", 20_000)]
    read, lock = [0], threading.Lock()

    def reader() -> None:
        while (admitted := gate.admit(1000)) is not None:
            gate.read(admitted, 900)
            with lock:
                read[0] += 900

    threads = [threading.Thread(target=reader) for _ in range(3)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(0.25)
    took = time.monotonic() - began
    with lock:
        found = read[0]
    gate.close()
    for thread in threads:
        thread.join()
    # The slack of a quarter of a second and one page of each reader come at once.
    assert 20_000 * took * 0.9 <= found <= 20_000 * (took + 0.25) * 1.1 + 3 * 1000


def test_a_pause_holds_and_a_resume_lets_go() -> None:
    wanted, clock = Wanted(), SystemClock()
    gate = BackfillGate("t", wanted, clock)
    admitted: list[float] = []

    def reader() -> None:
        while gate.admit(10) is not None:
            admitted.append(clock.monotonic())
            clock.sleep(0.005)

    wanted.controls = Controls(paused=True)
    assert gate.look() == [Pause()] and gate.look() == []
    thread = threading.Thread(target=reader)
    thread.start()
    time.sleep(0.05)
    assert admitted == []
    wanted.controls = Controls()
    assert gate.look() == [Resume()]
    deadline = time.monotonic() + 2
    while len(admitted) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert len(admitted) >= 3
    wanted.controls = Controls(paused=True)
    gate.look()
    paused_at = clock.monotonic()
    time.sleep(0.05)
    gate.close()
    thread.join()
    assert all(moment <= paused_at for moment in admitted)


def test_a_changed_limit_is_felt_by_who_waits() -> None:
    wanted, clock = Wanted(), ManualClock()
    gate = BackfillGate("t", wanted, clock)
    wanted.controls = Controls(False, 1)
    gate.look()
    first = gate.admit(10)
    assert first is not None and first.rows == 1
    waits = clock.monotonic()

    # The second page would be due in a second; the limit goes before that.
    def sleep(seconds: float) -> None:
        clock.elapsed += seconds
        wanted.controls = Controls()
        gate.look()

    gate._clock = type("Clock", (), {"monotonic": clock.monotonic, "sleep": staticmethod(sleep)})()
    second = gate.admit(10)
    assert second is not None and second.rows == 10
    assert clock.monotonic() - waits < 0.5


def test_closed_nobody_waits() -> None:
    wanted = Wanted()
    wanted.controls = Controls(paused=True)
    gate = BackfillGate("t", wanted, ManualClock())
    gate.look()
    gate.close()
    assert gate.admit(10) is None
