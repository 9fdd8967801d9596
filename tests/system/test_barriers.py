"""Leases raced for, clocks that step, a store that goes away, live controls: on real servers.

All but the last go without Spark.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from ops.barrier_worker.live_settings import parse_settings
from ops.common.errors import ConfigError
from orchestration import controls, running
from orchestration.deployment import CONTROL_DATABASE, Deployment, open_deployment
from resources.control_store import StoreUnreachable
from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres
from resources.settings import Settings
from tests.support import racer
from tests.support.control import Place, new_place, shared_store
from tests.support.driver import Job
from tests.support.judge import require_equal
from tests.support.pipeline import PIPELINE, TestPipeline, new_pipeline
from tests.support.toy_graph import barriers, epochs, require_sound
from tests.support.writer import LiveWriter
from tests.system.conftest import Launch, MakePipeline

FIRST = 1000


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_processes_race_for_a_lease_with_clocks_that_step(postgres: RunningPostgres) -> None:
    """One is killed, one sleeps past its lease; whatever happens, the commits are one chain."""
    store = shared_store(postgres)
    place = new_place(store)
    store.execute("grant_barriers", pipeline=place.pipeline, seconds=1000)
    store.execute(
        "set_pipeline_settings",
        pipeline=place.pipeline,
        **parse_settings(["barrier_interval=100ms", "checkpoint_frequency=2"]).values(),
    )
    race = racer.new_race(postgres.dsn("control_laws").reveal(), place.pipeline)
    names = iter("abcdefghij")
    processes = [racer.start(race, next(names)) for _ in range(3)]
    killed = set[str]()
    try:
        until(lambda: len(epochs(place)) >= 2)
        for kills in (False, False, True, False):
            until(lambda: owner_about_to_commit(place, processes) is not None)
            held = owner_about_to_commit(place, processes)
            if held is None or held.pid is None:
                continue
            if kills:
                held.kill()
                killed.add(held.name)
                processes.append(racer.start(race, next(names)))
            else:
                stop(held.pid, seconds=2.5 * racer.LEASE_SECONDS)
        until(lambda: len({e["term"] for e in epochs(place)}) >= 3)
        race.over.set()
        for process in processes:
            process.join(20)
        assert {p.name for p in processes if p.exitcode} == killed, "nobody else failed"
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
    require_sound(place)
    assert {b["kind"] for b in barriers(place)} >= {"Initial", "Barrier", "Checkpoint"}
    store.close()


def owner_about_to_commit(place: Place, processes: list[BaseProcess]) -> BaseProcess | None:
    """Return the owner if it lives and has begun an attempt that is not committed yet."""
    found = place.store._connection().execute(
        "SELECT owner FROM attempts JOIN graphs ON graphs.id = attempts.graph "
        "AND graphs.term = attempts.term WHERE graph = %s AND state = 'open'",
        (place.main,),
    )
    owners = {row["owner"] for row in found.fetchall()}
    return next((p for p in processes if p.name in owners and p.is_alive()), None)


def stop(pid: int, *, seconds: float) -> None:
    """Let a process sleep, as a host that swaps does; what it does on waking is fenced."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


@dataclass
class Stream:
    """A real stream run in a thread, from a real source, into a lake; no view, hence no Spark."""

    pipeline: TestPipeline
    deployment: Deployment
    said: list[str]
    failed: list[BaseException]

    @property
    def place(self) -> Place:
        return Place(self.deployment.store, PIPELINE)

    def write(self, count: int) -> None:
        with self.pipeline.source() as link:
            (last,) = link.execute("SELECT max(id) FROM orders").fetchone() or (0,)
            for number in range(count):
                new = int(str(last)) + number + 1
                link.execute("INSERT INTO orders (id, quantity) VALUES (%s, 1)", [new])

    def flush(self) -> None:
        running.flush(self.deployment, PIPELINE, timeout_s=30, check=self.check)

    def check(self) -> None:
        if self.failed:
            raise self.failed[0]

    def ids(self) -> list[int]:
        """Return the keys of all rows that committed files of the lake hold."""
        connection = self.deployment.store._connection()
        files = connection.execute("SELECT path FROM files WHERE unlisted_at IS NULL").fetchall()
        root = self.pipeline.lake
        keys = [pq.read_table(root / f["path"]).column("key").to_pylist() for f in files]
        return sorted(key["id"] for found in keys for key in found)


@contextmanager
def streaming(pipeline: TestPipeline) -> Iterator[Stream]:
    over = threading.Event()
    with open_deployment(pipeline.settings) as deployment:
        deployment.max_log_files = 10**9
        made = Stream(pipeline, deployment, [], [])
        plan = deployment.pipeline(PIPELINE)
        running.ensure_applied(deployment, plan)
        deployment.store.execute("grant_barriers", pipeline=PIPELINE, seconds=1000)

        def run() -> None:
            try:
                running.stream(
                    deployment, PIPELINE, owner="me", until=over.is_set, tell=made.said.append
                )
            except BaseException as error:
                made.failed.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            over.set()
            thread.join(60)
            assert not thread.is_alive()
        made.check()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A server for the control store alone, which may be stopped."""
    tmp_path.chmod(0o755)
    yield EmbeddedPostgres(tmp_path / "server", durable=False)


@pytest.fixture
def make(
    postgres: RunningPostgres, session_settings: Settings, tmp_path: Path
) -> Iterator[Callable[[], TestPipeline]]:
    with ExitStack() as stack:

        def pipeline() -> TestPipeline:
            made = new_pipeline(
                postgres, session_settings, "sc://nowhere", tmp_path / "p", rows=FIRST, views={}
            )
            return stack.enter_context(made)

        yield pipeline


def test_the_store_is_restarted_and_goes_away(
    make: Callable[[], TestPipeline], own_server: EmbeddedPostgres
) -> None:
    with own_server.acquire() as server:
        pipeline = make()
        dsn = server.ensure_database(CONTROL_DATABASE)
        pipeline = replace(pipeline, settings=replace(pipeline.settings, control_dsn=dsn))
        with streaming(pipeline) as stream:
            stream.flush()
            for away_s in (0.0, 4.0):
                stream.write(5)
                own_server._stop()
                stream.write(5)
                time.sleep(away_s)
                own_server._ensure_started()
                stream.write(5)
                until(lambda: flushed(stream))
            assert stream.place.graph()["term"] == 1, "it never lost its lease"
            written = 2 * 15
            assert stream.ids() == list(range(FIRST + 1, FIRST + 1 + written))
            require_one_chain(stream.place)
        assert any("going on from the last commit" in text for text in stream.said)


def flushed(stream: Stream) -> bool:
    """Say whether a flush passed; the connection of this thread may be one that was lost."""
    try:
        stream.flush()
    except Exception as error:
        stream.check()
        assert getattr(error, "transient", False), error
        return False
    return True


def require_one_chain(place: Place) -> None:
    before = 0
    for epoch in epochs(place):
        assert epoch["prev"] == before < epoch["epoch"]
        before = epoch["epoch"]
    last = None
    for barrier in barriers(place):
        if barrier["kind"] != "Initial":
            assert last is not None and barrier["prev"] == last["curr"]
        last = barrier


def test_paused_resumed_and_set_from_the_command_line(
    make: Callable[[], TestPipeline], capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = make()
    settings = pipeline.settings
    with streaming(pipeline) as stream:
        stream.flush()
        stream.write(2)
        stream.flush()
        assert controls.pause(settings, PIPELINE) == 0
        assert "shop is paused at epoch" in capsys.readouterr().out
        stream.write(2)
        with pytest.raises(running.Paused, match="tidegate resume shop"):
            stream.flush()
        time.sleep(1.5)
        assert len(stream.ids()) == 2, "nothing is read from the source"
        # What was asked of it while it was paused is answered afterwards.
        assert controls.resume(settings, PIPELINE) == 0
        until(lambda: len(stream.ids()) == 4)
        words = ["barrier_interval=100ms", "checkpoint_frequency=5"]
        assert controls.set_live(settings, PIPELINE, words) == 0
        assert "every 100ms, a checkpoint every 5 barriers" in capsys.readouterr().out
        until(lambda: kinds_after(stream, 0).count("Barrier") >= 8 or stream.write(1) is not None)
        stream.flush()
        tail = kinds_after(stream, 0)
        first = tail.index("Barrier")
        cycle = tail[first : first + 5]
        assert cycle == ["Barrier"] * 4 + ["Checkpoint"]
        require_one_chain(stream.place)
        # An applied definition does not take the user's setting back.
        running.ensure_applied(stream.deployment, stream.deployment.pipeline(PIPELINE))
        found = stream.deployment.store.query("select_pipeline", pipeline=PIPELINE)[0]
        assert (found["interval_ms"], found["checkpoint_frequency"]) == (100, 5)
    assert stream.ids() == list(range(FIRST + 1, FIRST + 1 + len(stream.ids())))


def kinds_after(stream: Stream, count: int) -> list[str]:
    return [b["kind"] for b in barriers(stream.place)][count:]


def test_a_stream_that_starts_paused_reads_nothing(make: Callable[[], TestPipeline]) -> None:
    pipeline = make()
    with open_deployment(pipeline.settings) as deployment:
        running.ensure_applied(deployment, deployment.pipeline(PIPELINE))
        said = controls.set_paused(deployment, PIPELINE, paused=True)
        assert said == "shop is paused; no stream runs now"
    with streaming(pipeline) as stream:
        until(lambda: kinds_after(stream, 0) == ["Initial"])
        stream.write(3)
        time.sleep(1.0)
        assert stream.ids() == [] and barriers(stream.place)[0]["mutation"] == "Pause"
        controls.set_paused(stream.deployment, PIPELINE, paused=False)
        stream.flush()
        assert len(stream.ids()) == 3


def test_a_store_gone_for_longer_than_anybody_waits_is_said(
    make: Callable[[], TestPipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.barrier_worker.recovery.GIVE_UP_SECONDS", 1.0)
    pipeline = make()
    name = psycopg.conninfo.conninfo_to_dict(pipeline.control)["dbname"]
    with pytest.raises(StoreUnreachable), streaming(pipeline) as stream:
        stream.flush()
        with unreachable(pipeline.dsn, name):
            until(lambda: bool(stream.failed))


@contextmanager
def unreachable(dsn: str, name: object) -> Iterator[None]:
    """For the time of the block nobody can connect to a database, and nobody is."""
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        link.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            link.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())


def test_a_throttled_fill_and_rare_checkpoints_come_to_the_same(
    make_pipeline: MakePipeline, launch: Launch
) -> None:
    """With Spark: views in step pass Barriers by, and pages keep the limit that was set before."""
    rows, rate = 6000, 2000
    made = make_pipeline(rows=rows, interval_ms=150)
    pipeline = replace(made, settings=replace(made.settings, checkpoint_frequency=3))
    with open_deployment(pipeline.settings) as deployment:
        running.ensure_applied(deployment, deployment.pipeline(PIPELINE))
        said = controls.set_throttle(deployment, PIPELINE, "orders", rows_per_s=rate)
        assert said == "the backfill of shop/orders reads at most 2,000 rows/s"
        with pytest.raises(ConfigError, match="revenue is a view"):
            controls.set_throttle(deployment, PIPELINE, "revenue", rows_per_s=rate)
    with LiveWriter(pipeline.dsn, rows=rows) as writer:
        child = launch(Job(pipeline.settings, "only"))
        child.await_file(child.file("settled"))
        time.sleep(2.0)
        writer.stop()
    epoch = child.finish()
    assert writer.transactions > 0 and require_equal(pipeline, epoch) > 0
    ((seconds,),) = pipeline.asked(
        "SELECT extract(epoch FROM max(created_at) - min(created_at))::float FROM attempts "
        f"WHERE graph = '{PIPELINE}/orders'"
    )
    # A quarter of a second is free, and the last page is not waited for.
    assert float(str(seconds)) >= (rows - 500) / rate * 0.9 - 0.25
    kinds = [k for (k,) in pipeline.asked("SELECT kind FROM barriers ORDER BY id")]
    commits = pipeline.asked(f"SELECT epoch FROM epochs WHERE graph = '{PIPELINE}'")
    assert kinds.count("Barrier") > 5
    assert len(commits) == kinds.count("Checkpoint") + kinds.count("SyncCheckpoint")
