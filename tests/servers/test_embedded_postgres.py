"""The first user starts the server, the last one stops it, whatever happens in between."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from resources.embedded.loopback import HOST
from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres, Version

ROOT = Path(__file__).parents[2]
USER_SCRIPT = """
import sys
from pathlib import Path
from resources.embedded.postgres import EmbeddedPostgres
with EmbeddedPostgres(Path(sys.argv[1]), durable=False).acquire() as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


@contextmanager
def new_home() -> Iterator[Path]:
    """A folder which a server run as `nobody` can reach."""
    with tempfile.TemporaryDirectory(prefix="tidegate-pg-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """One home for all: every test begins and ends with its server stopped."""
    with new_home() as folder:
        yield folder


@pytest.fixture
def empty_home() -> Iterator[Path]:
    """A home in which nothing has ever been started."""
    with new_home() as folder:
        yield folder


def embedded(home: Path, version: Version = 18) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, version=version, durable=False)


def ask(server: RunningPostgres, question: str) -> object:
    with psycopg.connect(server.dsn("postgres").reveal()) as connection:
        row = connection.execute(question).fetchone()
        return row[0] if row else None


def server_pid(server: RunningPostgres) -> int:
    folder = Path(str(ask(server, "SHOW data_directory")))
    return int((folder / "postmaster.pid").read_text().split()[0])


@contextmanager
def other_user(home: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that uses the server until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER_SCRIPT, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin and process.stdout
    try:
        yield process
    finally:
        if process.poll() is None:
            process.stdin.close()
            process.wait(30)
        process.stdout.close()


def port_of(process: "subprocess.Popen[str]") -> int:
    assert process.stdout
    return int(process.stdout.readline())


@pytest.mark.parametrize("version", [16, 18])
def test_it_is_ready_for_logical_replication(empty_home: Path, version: Version) -> None:
    with embedded(empty_home, version).acquire() as server:
        assert str(ask(server, "SHOW server_version")).startswith(f"{version}.")
        assert ask(server, "SHOW wal_level") == "logical"
        assert ask(server, "SHOW max_replication_slots") == "64"
        assert ask(server, "SHOW listen_addresses") == HOST
        assert ask(server, "SHOW synchronous_commit") == "on"
    assert not embedded(empty_home).is_running()


def test_it_asks_for_the_generated_password(home: Path) -> None:
    with embedded(home).acquire() as server:
        assert stat.S_IMODE((home / "postgres" / "password").stat().st_mode) == 0o600
        assert server.password.reveal() not in repr(server)
        wrong = f"postgresql://{server.user}:wrong@{server.host}:{server.port}/postgres"
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(wrong)


def test_a_database_is_made_once_by_many(home: Path) -> None:
    failures: list[BaseException] = []

    def make(server: RunningPostgres) -> None:
        try:
            server.ensure_database("lake")
        except BaseException as error:
            failures.append(error)

    with embedded(home).acquire() as server:
        threads = [threading.Thread(target=make, args=[server]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'lake'") == 1


def test_data_and_port_outlive_a_stop(home: Path) -> None:
    with embedded(home).acquire() as first:
        first.ensure_database("kept")
    with embedded(home).acquire() as second:
        assert second == first
        assert ask(second, "SELECT count(*) FROM pg_database WHERE datname = 'kept'") == 1


@pytest.mark.system
def test_the_last_user_stops_it(home: Path) -> None:
    with embedded(home).acquire() as mine, other_user(home) as other:
        assert port_of(other) == mine.port
        with embedded(home).acquire():
            pass
        assert ask(mine, "SELECT 1") == 1, "one user of this process left, another stayed"
    assert not embedded(home).is_running()


@pytest.mark.system
def test_two_first_users_at_once(empty_home: Path) -> None:
    with other_user(empty_home) as one, other_user(empty_home) as two:
        assert port_of(one) == port_of(two)
    assert not embedded(empty_home).is_running()


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_user_and_the_server(home: Path, number: signal.Signals) -> None:
    with other_user(home) as other:
        port_of(other)
        other.send_signal(number)
        assert other.wait(30) != 0
    assert not embedded(home).is_running()


@pytest.mark.system
def test_a_killed_user_leaves_a_server_the_next_one_takes_over(home: Path) -> None:
    with other_user(home) as other:
        port = port_of(other)
        other.kill()
        other.wait()
    assert embedded(home).is_running()
    with embedded(home).acquire() as server:
        assert server.port == port
    assert not embedded(home).is_running()


@pytest.mark.system
def test_a_killed_server_recovers_with_its_data(home: Path) -> None:
    with embedded(home).acquire() as before:
        before.ensure_database("kept")
        os.kill(server_pid(before), signal.SIGKILL)
        with embedded(home).acquire() as after:
            assert ask(after, "SELECT count(*) FROM pg_database WHERE datname = 'kept'") == 1
    assert not embedded(home).is_running()


def test_a_taken_port_is_left_to_its_owner(home: Path) -> None:
    with embedded(home).acquire() as before:
        pass
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind((HOST, before.port))
        stranger.listen()
        with embedded(home).acquire() as after:
            assert after.port != before.port
            assert ask(after, "SELECT 1") == 1


def test_a_pid_file_naming_another_program_is_no_server(home: Path) -> None:
    with embedded(home).acquire() as server:
        folder = Path(str(ask(server, "SHOW data_directory")))
        text = (folder / "postmaster.pid").read_text()
    stale = "\n".join([str(os.getpid()), *text.split("\n")[1:]])
    (folder / "postmaster.pid").write_text(stale)
    assert not embedded(home).is_running()
    with embedded(home).acquire() as server:
        assert ask(server, "SELECT 1") == 1


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
def test_a_home_the_server_cannot_reach_keeps_its_files_elsewhere(empty_home: Path) -> None:
    empty_home.chmod(0o700)
    with embedded(empty_home).acquire() as server:
        folder = Path(str(ask(server, "SHOW data_directory")))
        assert empty_home not in folder.parents
        assert str(folder.parent) in (empty_home / "postgres" / "WHERE").read_text()
    with embedded(empty_home).acquire() as again:
        assert again == server
    subprocess.run(["rm", "-r", str(folder.parent)], check=True)
