"""The control store on a real Postgres: migrations, transactions, lost connections and COMMITs."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ops.backfill.failpoints import no_failpoint
from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import acquire
from ops.common.epoch import Epoch
from ops.common.errors import is_transient
from ops.common.table.relation import StagedFile
from resources.control_store import ControlStore, StoreUnreachable
from resources.embedded.postgres import RunningPostgres
from resources.errors import ConfigError
from resources.sql_text import migrations
from tests.support.control import SCHEMA, Place, Wire, new_place, shared_store, wired_store
from tests.support.source_place import until


@pytest.fixture
def place(shared: ControlStore) -> Place:
    return new_place(shared)


@pytest.fixture
def wired(postgres: RunningPostgres, shared: ControlStore) -> Iterator[tuple[ControlStore, Wire]]:
    with wired_store(postgres) as pair:
        yield pair


@pytest.fixture
def empty(database: str) -> Iterator[ControlStore]:
    store = ControlStore(database)
    yield store
    store.close()


def test_migrating_again_changes_nothing(empty: ControlStore, database: str) -> None:
    newest = max(number for number, _ in migrations())
    assert empty.migrate() == newest
    with psycopg.connect(database) as link:
        before = link.execute("SELECT number, applied_at FROM migrations").fetchall()
    assert empty.migrate() == newest
    with psycopg.connect(database) as link:
        assert link.execute("SELECT number, applied_at FROM migrations").fetchall() == before
    assert [n for n, _ in before] == [n for n, _ in migrations()]


def test_four_migrate_at_once(database: str) -> None:
    stores = [ControlStore(database) for _ in range(4)]
    together = threading.Barrier(4)

    def migrate(store: ControlStore) -> int:
        together.wait()
        return store.migrate()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(migrate, stores))) == 1
    for store in stores:
        store.close()
    with psycopg.connect(database) as link:
        found = link.execute("SELECT number FROM migrations ORDER BY number").fetchall()
    assert [number for (number,) in found] == [number for number, _ in migrations()]


def test_a_newer_store_is_refused_and_left_alone(empty: ControlStore, database: str) -> None:
    empty.migrate()
    with psycopg.connect(database) as link:
        link.execute("INSERT INTO migrations VALUES (9999)")
    with pytest.raises(ConfigError, match=r"newer Tidegate \(migration 9999.*upgrade"):
        empty.migrate()


def test_a_failed_migration_leaves_nothing(
    empty: ControlStore, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = [*migrations(), (9998, "CREATE TABLE half (); SELECT 1 / 0")]
    monkeypatch.setattr("resources.control_store.migrations", lambda: broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        empty.migrate()
    with psycopg.connect(database) as link:
        assert link.execute("SELECT to_regclass('graphs'), to_regclass('half')").fetchone() == (
            None,
            None,
        )


def test_a_transaction_is_all_or_nothing(place: Place) -> None:
    with pytest.raises(ZeroDivisionError), place.store.transaction() as tx:
        tx.execute("ensure_graph", graph="g", pipeline=place.pipeline, kind="main")
        assert tx.query("select_graph", graph="g")
        raise ZeroDivisionError
    assert place.store.query("select_graph", graph="g") == []
    # The connection is good for the next.
    with place.store.transaction() as tx:
        tx.execute("ensure_graph", graph="g2", pipeline=place.pipeline, kind="main")
    assert place.store.query("select_graph", graph="g2")


def test_a_failed_statement_rolls_back(place: Place) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation), place.store.transaction() as tx:
        tx.execute("ensure_graph", graph="h", pipeline=place.pipeline, kind="main")
        tx.execute("ensure_graph", graph="i", pipeline="no such pipeline", kind="main")
    assert place.store.query("select_graph", graph="h") == []


def test_each_thread_has_its_own_transaction(place: Place) -> None:
    with place.store.transaction() as tx:
        tx.execute("ensure_graph", graph="j", pipeline=place.pipeline, kind="main")
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(place.store.query, "select_graph", graph="j").result() == []


def test_the_password_is_not_shown(postgres: RunningPostgres) -> None:
    store = ControlStore(postgres.dsn("nowhere").reveal())
    with pytest.raises(StoreUnreachable) as refused:
        store.query("select_graph", graph="g")
    password = postgres.password.reveal()
    assert password not in str(refused.value) + repr(store)
    assert is_transient(refused.value)


def test_a_lock_is_held_among_all_users(place: Place, postgres: RunningPostgres) -> None:
    other = shared_store(postgres)
    inside, leave, order = threading.Event(), threading.Event(), []

    def hold() -> None:
        with other.lock("l"):
            inside.set()
            leave.wait(10)
            order.append("other")

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    with place.store.lock("another name"):
        leave.set()
    with place.store.lock("l"):
        order.append("mine")
    thread.join()
    other.close()
    assert order == ["other", "mine"]


def test_a_lock_is_waited_for_as_long_as_it_takes_and_says_why(
    place: Place, postgres: RunningPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.control_store.LOCK_POLL_SECONDS", 0.01)
    other = ControlStore(postgres.dsn("control_laws").reveal())
    # The time-out of row locks is no limit for this one.
    other._connection().execute("SET lock_timeout = 1")
    told: list[str] = []
    free = threading.Event()

    def hold() -> None:
        with place.store.lock("k"):
            held.set()
            free.wait(10)

    held = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)

    def tell(why: str) -> None:
        told.append(why)
        free.set()

    with other.lock("k", tell):
        holder.join()
    assert len(told) == 1 and "waiting for 'k', which tidegate-control on" in told[0]
    other.close()


def test_a_lock_is_given_back(place: Place, postgres: RunningPostgres) -> None:
    other = ControlStore(postgres.dsn("control_laws").reveal())
    with place.store.lock("given back"):
        assert not other._try_lock("given back")
    assert other._try_lock("given back")
    other.close()


def test_a_threads_connection_ends_with_it(postgres: RunningPostgres, shared: ControlStore) -> None:
    store = ControlStore(postgres.dsn("control_laws").reveal())
    pids = set[int]()

    def work() -> None:
        store.query("select_graph", graph="g")
        pids.add(store._connection().info.backend_pid)

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(pids) == 5

    def alive() -> int:
        found = shared._connection().execute(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE pid = ANY(%s)", (list(pids),)
        )
        return int(found.fetchall()[0]["n"])

    until(lambda: alive() == 0)
    assert store.query("select_graph", graph="g") == []
    store.close()


def terminate(place: Place, store: ControlStore) -> None:
    """End the backend that serves `store`'s connection of this thread, as an operator might."""
    pid = store._connection().info.backend_pid
    with place.store.transaction():
        place.store._connection().execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def test_after_a_lost_connection_the_next_call_reconnects(
    place: Place, postgres: RunningPostgres
) -> None:
    store = ControlStore(postgres.dsn("control_laws").reveal())
    assert store.query("select_graph", graph=place.main)
    terminate(place, store)
    with pytest.raises(StoreUnreachable) as lost:
        store.query("select_graph", graph=place.main)
    assert not lost.value.commit_unknown and is_transient(lost.value)
    assert store.query("select_graph", graph=place.main)
    terminate(place, store)
    with store.transaction() as tx:  # asks before it begins
        assert tx.query("select_graph", graph=place.main)
    store.close()


def test_while_the_store_is_away_calls_fail_and_afterwards_pass(
    place: Place, wired: tuple[ControlStore, Wire]
) -> None:
    store, wire = wired
    assert store.query("select_graph", graph=place.main)
    wire.forward = False
    wire.cut()
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            store.query("select_graph", graph=place.main)
    with pytest.raises(StoreUnreachable), store.transaction():
        pass
    wire.forward = True
    with store.transaction() as tx:
        assert tx.query("select_graph", graph=place.main)
    assert store.query("select_graph", graph=place.main)


def test_lost_between_two_statements_is_no_unknown_commit(
    place: Place, wired: tuple[ControlStore, Wire]
) -> None:
    store, wire = wired
    with pytest.raises(StoreUnreachable) as lost, store.transaction() as tx:
        tx.execute("ensure_graph", graph="lost", pipeline=place.pipeline, kind="main")
        wire.cut()
        tx.query("select_graph", graph="lost")
    assert not lost.value.commit_unknown
    assert place.store.query("select_graph", graph="lost") == []


class Try:
    """One epoch about to be committed through `store`."""

    def __init__(self, place: Place, store: ControlStore) -> None:
        self.place = place
        self.table = place.create("t", SCHEMA)
        self.term = acquire(store, place.main, owner="me", seconds=60)
        self.attempt = open_attempt(store, place.main, self.term.term, place.pipeline)
        path = f"{self.attempt.directory}/log.parquet"
        file = StagedFile(self.table.id, self.attempt.id, "log", path, 3, 10)
        self.commit = EpochCommit(
            place.main, self.term.term, Epoch(0), Epoch(100), (self.attempt.id,), (file,)
        )

    def run(self, store: ControlStore, *, before_commit: object = None) -> None:
        def also(_: object) -> None:
            if callable(before_commit):
                before_commit()

        commit_epoch(store, self.commit, failpoint=no_failpoint, name="tick", also=also)

    def landed(self) -> bool:
        found = self.place.store.query("select_listing", relation=self.table.id)[0]["files"]
        epoch = self.place.store.query("select_epoch", graph=self.place.main, epoch=100)
        moved = self.place.committed() == 100
        assert len(found) == len(epoch) == moved, "all of it or nothing"
        return moved


def test_a_commit_whose_answer_is_lost_has_happened(
    place: Place, wired: tuple[ControlStore, Wire]
) -> None:
    store, wire = wired
    trial = Try(place, store)
    wire.on_commit = wire.cut
    trial.run(store)  # no error: it asked
    assert wire.on_commit is None, "the answer was dropped"
    assert trial.landed()


def test_a_commit_that_never_arrived_has_not_happened(
    place: Place, wired: tuple[ControlStore, Wire]
) -> None:
    store, wire = wired
    trial = Try(place, store)
    wire.drop_commit = True
    with pytest.raises(StoreUnreachable) as lost:
        trial.run(store)
    assert lost.value.commit_unknown and not wire.drop_commit
    assert not trial.landed()
    trial.run(store)
    assert trial.landed()


def test_a_backend_ended_before_commit_has_not_committed(
    place: Place, wired: tuple[ControlStore, Wire]
) -> None:
    store, _ = wired
    trial = Try(place, store)
    with pytest.raises(StoreUnreachable) as lost:
        trial.run(store, before_commit=lambda: terminate(place, store))
    assert lost.value.commit_unknown
    assert not trial.landed()
    trial.run(store)
    assert trial.landed()


def test_asking_is_repeated_while_the_store_is_away(
    place: Place, wired: tuple[ControlStore, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, wire = wired
    trial = Try(place, store)
    asked: list[float] = []

    def sleep(seconds: float) -> None:
        asked.append(seconds)
        wire.forward = len(asked) >= 3

    def lose() -> None:
        wire.forward = False
        wire.cut()

    monkeypatch.setattr("ops.barrier_worker.commit.time.sleep", sleep)
    wire.on_commit = lose
    trial.run(store)
    assert len(asked) == 3 and trial.landed()


def test_it_does_not_ask_for_ever(
    place: Place, wired: tuple[ControlStore, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, wire = wired
    trial = Try(place, store)

    def lose() -> None:
        wire.forward = False
        wire.cut()

    monkeypatch.setattr("ops.barrier_worker.commit.ASK_SECONDS", 0.0)
    monkeypatch.setattr("ops.barrier_worker.commit.time.sleep", lambda _: None)
    wire.on_commit = lose
    with pytest.raises(StoreUnreachable):
        trial.run(store)
    assert trial.landed(), "it had happened, and nobody could say so"
