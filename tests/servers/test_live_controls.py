"""Live controls of a backfill on a real source: pages are read as a task reads them, without Spark.

Keys 1 … ROWS of one table in a few large splits: what is changed is changed inside of a split.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ops.backfill.cdc.cdc_backfill import CdcBackfillExecutor
from ops.backfill.cdc.cdc_backfill_v2 import ParallelizedCdcBackfillExecutor
from ops.backfill.cdc.split import Key
from ops.backfill.failpoints import no_failpoint
from ops.backfill.progress import RelationProgress, pipeline_progress
from ops.barrier_worker.lease import LeaseKeeper, acquire
from ops.common.errors import BackfillVersionChanged
from ops.common.schema import INT8, TEXT, Column, Schema
from ops.planner.plan import TablePlan
from resources.clock import SystemClock
from resources.control_store import ControlStore
from resources.embedded.postgres import RunningPostgres
from resources.key_range import KeyColumn
from resources.lake import Lake
from resources.pages import PageRead, PageTask
from resources.postgres import PostgresSource
from resources.postgres_link import SourceUnreachable
from resources.postgres_page import page_dsn, page_query, read_page
from tests.support.control import Place, new_place
from tests.support.source_place import Place as SourcePlace

ROWS = 30_000
SCHEMA = Schema((Column("id", INT8, nullable=False), Column("note", TEXT)), ("id",))
COLUMNS = [("id", "int8"), ("note", "text")]
END_PAGES = (
    b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    b"WHERE datname = 'live_controls' AND query LIKE 'COPY%'"
)


@dataclass
class DirectPages:
    """Does in this process what a Spark task does; notes when which page was read."""

    source: PostgresSource
    key: tuple[KeyColumn, ...]
    lake: Lake
    reads: list[tuple[float, int, int]] = field(default_factory=list)
    now: int = 0
    most_at_once: int = 0
    slow_s: float = 0.0
    fail: Callable[[], bool] = lambda: False

    def read(
        self,
        *,
        at_least: Key | None,
        above: Key | None,
        below: Key | None,
        limit: int,
        path: str,
    ) -> PageRead:
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        began = time.monotonic()
        try:
            if self.fail():
                raise SourceUnreachable("a page could not be read: the wire was cut")
            query = page_query(
                "public",
                "t",
                COLUMNS,
                self.key,
                at_least=at_least,
                above=above,
                below=below,
                limit=limit,
            )
            task = PageTask(
                page_dsn(self.source), query, COLUMNS, list(self.key), "id", self.lake, path
            )
            found = task.read()
            time.sleep(self.slow_s)
        finally:
            self.now -= 1
        if found["error"] is not None:
            raise SourceUnreachable(found["error"])
        self.reads.append((began, found["rows"], limit))
        return PageRead.from_row(found)

    @property
    def rows(self) -> int:
        return sum(rows for _, rows, _ in self.reads)


@dataclass
class Running:
    place: Place
    pages: DirectPages
    vnodes: list[int] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    @property
    def relation(self) -> int:
        return self.place.relation("t").id

    def want(self, statement: str, **values: object) -> None:
        self.place.store.execute(statement, relation=self.relation, **values)

    def pause(self, paused: bool) -> None:
        self.place.store.execute("set_paused", pipeline=self.place.pipeline, paused=paused)

    def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.005)

    def finish(self) -> None:
        assert self.thread is not None
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.errors:
            raise self.errors[0]

    def progress(self) -> RelationProgress:
        (found,) = pipeline_progress(self.place.store, self.place.pipeline).relations
        return found

    def keys(self) -> list[int]:
        """Return all keys in the committed pages, in any order."""
        files = self.place.store.query("select_listing", relation=self.relation)[0]["files"]
        tables = [pq.read_table(self.pages.lake.uri(file["path"])) for file in files]
        return [key for table in tables for key in table.column("id").to_pylist()]


@pytest.fixture(scope="module")
def source(postgres: RunningPostgres) -> Iterator[SourcePlace]:
    postgres.ensure_database("live_controls")
    place = SourcePlace(postgres, "live_controls")
    place.run(
        "CREATE TABLE IF NOT EXISTS t (id int8 PRIMARY KEY, note text)",
        f"INSERT INTO t SELECT i, 'row ' || i FROM generate_series(1, {ROWS}) AS i",
        "ANALYZE t",
    )
    # The first page pays for loading the driver.
    key = place.source.key_columns("public", "t", ["id"])
    query = page_query("public", "t", COLUMNS, key, limit=1)
    read_page(page_dsn(place.source), query, COLUMNS, key)
    yield place
    place.close()


@pytest.fixture
def begin(
    shared: ControlStore, source: SourcePlace, tmp_path: Path
) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(
        *,
        parallelism: int = 2,
        page_rows: int = 1000,
        rate: int | None = None,
        place: Place | None = None,
        **wanted: float,
    ) -> Running:
        place = place or new_place(shared)
        if not running:
            place.create("t", SCHEMA, state="Waiting")
        key = source.source.key_columns("public", "t", ["id"])
        pages = DirectPages(source.source, key, Lake(str(tmp_path)))
        for name, value in wanted.items():
            setattr(pages, name, value)
        run = Running(place, pages)
        run.want("set_rows_per_second", rows_per_second=rate)
        running.append(run)
        run.thread = threading.Thread(target=_run, args=(run, parallelism, page_rows), daemon=True)
        run.thread.start()
        return run

    yield start
    for run in running:
        run.over.set()
        assert run.thread is not None
        run.thread.join(20)


def _run(run: Running, parallelism: int, page_rows: int) -> None:
    place, relation = run.place, run.place.relation("t")
    plan = TablePlan(
        place.pipeline,
        "t",
        "src",
        "public",
        "t",
        None,
        None,
        "",
        parallelism=parallelism,
        rows_per_split=ROWS // 4,
        page_rows=page_rows,
        vnode_count=4,
    )
    kind = ParallelizedCdcBackfillExecutor if parallelism else CdcBackfillExecutor
    try:
        term = acquire(place.store, relation.graph, owner="me", seconds=30)
        with LeaseKeeper(place.store, term, seconds=30) as keeper:
            executor = kind(
                plan,
                relation,
                run.pages.key,
                place.store,
                run.pages.source,
                run.pages,
                SystemClock(),
                no_failpoint,
                keeper,
                run.over.is_set,
            )
            run.vnodes.extend(done.vnode for done in executor.run(range(4)))
    except BaseException as error:
        run.errors.append(error)


def test_a_limit_is_kept_within_a_tenth_and_lifted_inside_a_split(
    begin: Callable[..., Running],
) -> None:
    run = begin(parallelism=8, page_rows=5000, rate=5000)
    run.until(lambda: run.pages.rows >= 24_000)
    reads = list(run.pages.reads)
    rate = sum(rows for _, rows, _ in reads[:-1]) / (reads[-1][0] - reads[0][0])
    assert rate == pytest.approx(5000, rel=0.1)
    lifted = time.monotonic()
    run.want("set_rows_per_second", rows_per_second=None)
    run.finish()
    assert next(began for began, _, limit in run.pages.reads if limit > 2500) - lifted < 2
    assert sorted(run.keys()) == list(range(1, ROWS + 1))


def test_a_pause_stops_reads_within_two_seconds(begin: Callable[..., Running]) -> None:
    run = begin(slow_s=0.05)
    run.until(lambda: run.pages.rows > 2000)
    run.pause(True)
    time.sleep(2)
    at_rest = len(run.pages.reads)
    time.sleep(0.6)
    assert len(run.pages.reads) == at_rest and run.pages.rows < ROWS
    assert run.progress().parts_read < 4
    run.pause(False)
    resumed = time.monotonic()
    run.until(lambda: len(run.pages.reads) > at_rest)
    assert time.monotonic() - resumed < 2
    run.pages.slow_s = 0
    run.finish()
    assert sorted(run.keys()) == list(range(1, ROWS + 1))


def test_the_number_of_readers_changes_inside_a_split(begin: Callable[..., Running]) -> None:
    run = begin(parallelism=1, slow_s=0.05)
    run.until(lambda: run.pages.rows >= 2000)
    assert run.pages.most_at_once == 1
    run.want("set_parallelism", parallelism=4)
    asked = time.monotonic()
    run.until(lambda: run.pages.now == 4)
    assert time.monotonic() - asked < 2
    run.want("set_parallelism", parallelism=2)
    asked = time.monotonic()
    run.until(lambda: run.pages.now <= 2 and time.monotonic() - asked > 1)
    run.pages.most_at_once, before = 0, len(run.pages.reads)
    run.until(lambda: len(run.pages.reads) >= before + 4)
    assert 1 <= run.pages.most_at_once <= 2 and run.pages.rows < ROWS
    run.pages.slow_s = 0
    run.want("set_parallelism", parallelism=None)
    run.finish()
    found = run.keys()
    assert sorted(found) == list(range(1, ROWS + 1)), "a split that was handed on came once"


def test_what_passes_is_tried_again_and_the_rest_goes_on(begin: Callable[..., Running]) -> None:
    chances = itertools.count()
    run = begin(parallelism=2)
    run.pages.fail = lambda: next(chances) % 3 == 1
    run.finish()
    assert sorted(run.keys()) == list(range(1, ROWS + 1)) and next(chances) > ROWS // 1000


def test_connections_that_the_server_ends_cost_a_page_and_not_the_run(
    begin: Callable[..., Running], source: SourcePlace
) -> None:
    run = begin(parallelism=2, slow_s=0.02)
    ended = 0
    deadline = time.monotonic() + 20
    while ended < 3 and time.monotonic() < deadline:
        ended += len(source.connection.execute(END_PAGES).fetchall())
    assert ended >= 3
    run.pages.slow_s = 0
    run.finish()
    assert sorted(run.keys()) == list(range(1, ROWS + 1))


def test_progress_is_what_was_committed_and_never_goes_back(
    begin: Callable[..., Running],
) -> None:
    run = begin(parallelism=2, slow_s=0.03)
    seen: list[RelationProgress] = []
    while run.thread is not None and run.thread.is_alive():
        seen.append(run.progress())
        time.sleep(0.02)
    run.finish()
    waiting, last = seen[0], run.progress()
    if waiting.state == "Waiting":
        assert waiting.total_rows is waiting.speed is waiting.seconds_left is None
    for earlier, later in itertools.pairwise([*seen, last]):
        assert earlier.rows <= later.rows and earlier.parts_read <= later.parts_read
        assert earlier.total_rows is None or later.total_rows == earlier.total_rows == ROWS
    timed = [p for p in seen if p.speed is not None and p.rows < ROWS]
    assert timed, "it says how fast it is while it reads"
    for said in timed:
        assert said.seconds_left is not None and said.speed is not None
        assert said.seconds_left * said.speed == pytest.approx(ROWS - said.rows)
    # Read, but not live before the stream has passed it.
    assert (last.state, last.rows, last.parts_read) == ("CatchingUp", ROWS, 4)
    assert last.speed is last.seconds_left is None and not last.settled


def test_pages_grow_to_what_a_task_may_take(begin: Callable[..., Running]) -> None:
    run = begin(parallelism=1, page_rows=500_000)
    run.finish()
    asked = [limit for _, _, limit in run.pages.reads]
    assert asked[0] == 20_000 and max(asked) > 20_000


def test_one_reader_writes_down_its_cursor_and_does_not_become_many(
    begin: Callable[..., Running],
) -> None:
    run = begin(parallelism=0, slow_s=0.05)
    run.until(lambda: run.progress().rows > 0)
    run.over.set()
    run.finish()
    graph = run.place.relation("t").graph
    read, term = run.progress().rows, run.place.graph(graph)
    run.place.store.execute(
        "set_graph_passed",
        graph=graph,
        generation=term["generation"],
        term=term["term"],
        epoch=term["committed"],
    )
    (said,) = run.place.store.query("select_passed_epoch", graph=graph)
    assert 0 < read < ROWS and said["epoch"] == term["committed"]
    assert said["offsets"]["backfill_state"][:4] == ["t", str(read), False, read]
    again = begin(parallelism=2, place=run.place)
    with pytest.raises(BackfillVersionChanged, match="began as v1 and cannot go on as v2"):
        again.finish()
    last = begin(parallelism=0, place=run.place)
    last.finish()
    assert last.pages.rows == ROWS - read, "it goes on at the cursor"
    assert sorted(last.keys()) == list(range(1, ROWS + 1)) and last.pages.most_at_once == 1
