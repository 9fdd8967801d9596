"""A table's backfill on a real store with pages that cost nothing: paused, throttled, left."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ops.backfill.cdc.cdc_backfill_v2 import ParallelizedCdcBackfillExecutor
from ops.backfill.failpoints import no_failpoint
from ops.barrier_worker.lease import LeaseKeeper, acquire
from ops.planner.plan import TablePlan
from resources.clock import SystemClock
from resources.control_store import ControlStore
from tests.support.control import SCHEMA, Place, new_place

ROWS, PAGE = 4000, 1000


@pytest.fixture
def place(shared: ControlStore, monkeypatch: pytest.MonkeyPatch) -> Place:
    # How often it looks for a change, and commits.
    monkeypatch.setattr("ops.backfill.cdc.table_backfill.TICK_SECONDS", 0.05)
    return new_place(shared)


@dataclass(frozen=True)
class Read:
    rows: int
    last_key: tuple[str, ...] | None
    bytes: int = 10
    memory: int = 10
    bounds: tuple[int, int] | None = None
    seconds: float = 0.0


@dataclass
class InstantPages:
    """A table with the keys 1 … ROWS; remembers when how much of it was read."""

    reads: list[tuple[float, int]] = field(default_factory=list)

    def read(
        self,
        *,
        at_least: tuple[str, ...] | None,
        above: tuple[str, ...] | None,
        below: tuple[str, ...] | None,
        limit: int,
        path: str,
    ) -> Read:
        first = int(at_least[0]) if at_least else int(above[0]) + 1 if above else 1
        last = min(int(below[0]) - 1 if below else ROWS, first + limit - 1)
        rows = max(0, last - first + 1)
        self.reads.append((time.monotonic(), rows))
        return Read(rows, (str(last),) if rows else None)

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.reads)


@dataclass(frozen=True)
class Bounds:
    is_integer: bool = True
    low: int = 1
    high: int = ROWS
    estimated_rows: int = ROWS


class QuietSource:
    def key_bounds(self, schema: str, table: str, key: object) -> Bounds:
        return Bounds()

    def emit_message(self, prefix: str, content: str) -> int:
        return 1


@dataclass
class Backfill:
    pages: InstantPages
    vnodes: list[int]
    thread: threading.Thread
    over: threading.Event

    def until(self, condition: Callable[[], bool], seconds: float = 5) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.005)


def begin(place: Place, *, paused: bool = False, rows_per_s: int | None = None) -> Backfill:
    relation = place.create("t", SCHEMA, state="Waiting")
    place.store.execute("set_paused", pipeline=place.pipeline, paused=paused)
    throttle(place, rows_per_s)
    plan = TablePlan(
        place.pipeline, "t", "src", "public", "t", None, None, "", 2, ROWS // 2, PAGE, 4
    )
    pages, over, vnodes = InstantPages(), threading.Event(), list[int]()
    source: Any = QuietSource()

    def run() -> None:
        term = acquire(place.store, relation.graph, owner="me", seconds=30)
        with LeaseKeeper(place.store, term, seconds=30) as keeper:
            executor = ParallelizedCdcBackfillExecutor(
                plan,
                relation,
                ["id"],
                place.store,
                source,
                pages,
                SystemClock(),
                no_failpoint,
                keeper,
                over.is_set,
            )
            vnodes.extend(done.vnode for done in executor.run(range(4)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return Backfill(pages, vnodes, thread, over)


def throttle(place: Place, rows_per_s: int | None) -> None:
    relation = place.relation("t").id
    place.store.execute("set_rows_per_second", relation=relation, rows_per_second=rows_per_s)


def split_rows(place: Place) -> int:
    relation = place.relation("t").id
    return sum(s["rows"] for s in place.store.query("select_splits", relation=relation))


def test_paused_no_page_is_read_and_resumed_all_are(place: Place) -> None:
    backfill = begin(place, paused=True)
    backfill.until(lambda: place.relation("t").state == "Backfilling")
    time.sleep(0.2)
    assert backfill.pages.reads == []
    place.store.execute("set_paused", pipeline=place.pipeline, paused=False)
    backfill.thread.join(10)
    assert backfill.pages.rows == ROWS == split_rows(place)
    assert sorted(backfill.vnodes) == [0, 1, 2, 3]
    assert place.relation("t").state == "CatchingUp"


def test_a_limit_slows_it_down_and_taking_it_away_lets_it_go(place: Place) -> None:
    backfill = begin(place, rows_per_s=500)
    backfill.until(lambda: len(backfill.pages.reads) >= 1)
    time.sleep(0.2)
    assert backfill.pages.rows == 250, "a page of half a second; the next is not due yet"
    throttle(place, None)
    backfill.thread.join(10)
    assert backfill.pages.rows == ROWS == split_rows(place)
    assert max(rows for _, rows in backfill.pages.reads) == PAGE


def test_left_while_it_waits_it_ends(place: Place) -> None:
    backfill = begin(place, paused=True)
    time.sleep(0.1)
    backfill.over.set()
    backfill.thread.join(5)
    assert not backfill.thread.is_alive() and backfill.pages.reads == []
    assert place.graph(place.relation("t").graph)["owner"] is None
