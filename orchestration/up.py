"""`tidegate up`: the Dagster UI and daemon, with a Postgres and a warm Spark, until Ctrl-C.

    this process ── Spark Connect server   shared by all runs
                 ├─ code server            holds the definitions; runs are its children
                 ├─ webserver              the UI
                 └─ daemon                 ticks the barrier sensor, launches runs

A child that ends is started again; one that keeps ending ends everything, with a sentence. What a
killed `up` left behind is put right at the next start: its runs are marked failed, the sensor
starts new ones, and they take the leases over when those have run out.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from ops.common.errors import ConfigError
from orchestration.child_processes import Child, adopt_orphans
from orchestration.dagster_home import (
    STORAGE_DATABASE,
    STORAGE_VARIABLE,
    DagsterHome,
    write_dagster_home,
)
from resources.embedded.connect_server import ConnectServer, launch_connect_server, new_token
from resources.embedded.loopback import answers, free_port, is_free
from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres
from resources.embedded.signals import end_on_terminate, finish_first
from resources.settings import SecretStr, Settings, export

READY_SECONDS = 180.0
WATCH_SECONDS = 0.5
GRACE_SECONDS = 20.0
LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries { loadStatus
    locationOrLoadError { __typename ... on PythonError { message cause { message } } } } } } }"""


def up(settings: Settings, *, port: int, host: str = "127.0.0.1", read_only: bool = False) -> int:
    """Run until told to end; 0 if that was how it ended."""
    started = time.monotonic()
    if not is_free(port):
        raise ConfigError(f"port {port} is taken; choose another with `tidegate up --port`")
    settings.logs.mkdir(parents=True, exist_ok=True)
    adopt_orphans()
    try:
        with (
            end_on_terminate(),
            EmbeddedPostgres(settings.home).acquire() as postgres,
            _running(settings, postgres, port=port, host=host, read_only=read_only) as everything,
        ):
            everything.await_ready()
            ready = time.monotonic() - started
            _say(f"Tidegate is up: {everything.url} (ready in {ready:.0f} s)")
            _say("Ctrl-C ends it.")
            return everything.watch()
    except (KeyboardInterrupt, SystemExit):
        _say("Tidegate has ended.")
        return 0


@dataclass
class _Spark:
    """The one Spark server; replaced under the same address when it ends."""

    settings: Settings
    server: ConnectServer
    token: str
    starts: int = 1

    def restart(self) -> bool:
        if self.starts > 3:
            return False
        self.starts += 1
        self.server = launch_connect_server(self.settings, port=self.server.port, token=self.token)
        return True


@dataclass
class _Running:
    settings: Settings
    url: str
    spark: _Spark
    children: tuple[Child, ...]

    def await_ready(self) -> None:
        """Return once the UI shows our definitions and Spark answers."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            failed = self._keep_running()
            if failed is not None:
                raise ConfigError(failed)
            state = _locations(self.url)
            if state is not None and answers(self.spark.server.port):
                if state:
                    _say(f"The definitions do not load: {state}", file=sys.stderr)
                return
            if time.monotonic() > deadline:
                where = self.settings.logs
                raise ConfigError(f"it is not ready after {READY_SECONDS:.0f} s; see {where}")
            time.sleep(0.2)

    def watch(self) -> int:
        while True:
            time.sleep(WATCH_SECONDS)
            failed = self._keep_running()
            if failed is not None:
                _say(f"tidegate: {failed}", file=sys.stderr)
                return 1

    def _keep_running(self) -> str | None:
        """Start again what has ended; return why that makes no sense any more."""
        for child in self.children:
            code = child.exit_code
            if code is not None:
                _say(f"{child.name} ended (exit code {code}); starting it again", file=sys.stderr)
                if not child.restart():
                    return f"{child.name} keeps ending (exit code {code}); see {child.log}"
        code = self.spark.server.process.poll()
        if code is not None:
            _say(f"Spark ended (exit code {code}); starting it again", file=sys.stderr)
            if not self.spark.restart():
                return f"Spark keeps ending (exit code {code}); see {self.spark.server.log}"
        return None

    def stop(self) -> None:
        """End the daemon first (it launches), then the runs and the UI, then what they need."""
        for child in self.children:
            if child.name == "daemon":
                child.end(grace_s=GRACE_SECONDS)
        for child in self.children:
            child.ask()
        for child in self.children:
            child.end(grace_s=GRACE_SECONDS)
        self.spark.server.stop()


@contextmanager
def _running(
    settings: Settings, postgres: RunningPostgres, *, port: int, host: str, read_only: bool
) -> Iterator[_Running]:
    begun = datetime.now(UTC)
    token = new_token()
    server = launch_connect_server(settings, port=free_port(), token=token)
    spark = _Spark(settings, server, token)
    running = _Running(settings, f"http://{host}:{port}", spark, ())
    try:
        socket = _socket_path(settings)
        home = write_dagster_home(settings, code_socket=socket)
        storage = postgres.ensure_database(STORAGE_DATABASE)
        environ = _environ(settings, home, storage, server.remote)
        export({name: environ[name] for name in ("DAGSTER_HOME", STORAGE_VARIABLE)})
        bury_runs(home, before=begun)
        code = ["dagster", "code-server", "start", "-s", str(socket), "--location-name", "tidegate"]
        code += ["-m", "orchestration.definitions", "-d", str(settings.root)]
        ui = ["dagster_webserver", "-h", host, "-p", str(port), "-w", str(home.workspace)]
        ui += ["--read-only"] if read_only else []
        daemon = ["dagster._daemon", "run", "-w", str(home.workspace)]
        for name, arguments in (("code-server", code), ("webserver", ui), ("daemon", daemon)):
            child = Child(
                name,
                [sys.executable, "-m", *arguments],
                environ,
                settings.root,
                settings.logs / f"{name}.log",
            )
            if name == "code-server":
                child.before_start = lambda: socket.unlink(missing_ok=True)
            running.children += (child,)
            child.start()
        yield running
    finally:
        with finish_first():
            _say("Ending …")
            running.stop()


def bury_runs(home: DagsterHome, *, before: datetime) -> int:
    """Mark failed what an `up` that is gone had under way: its runs were its descendants."""
    from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

    working = [
        DagsterRunStatus.NOT_STARTED,
        DagsterRunStatus.STARTING,
        DagsterRunStatus.STARTED,
        DagsterRunStatus.CANCELING,
    ]
    buried = 0
    with DagsterInstance.from_config(str(home.folder)) as instance:
        for record in instance.get_run_records(RunsFilter(statuses=working)):
            if record.update_timestamp.replace(tzinfo=UTC) < before:
                why = "The `tidegate up` that ran this is gone."
                instance.report_run_failed(record.dagster_run, why)
                buried += 1
    return buried


def _environ(
    settings: Settings, home: DagsterHome, storage: SecretStr, remote: SecretStr
) -> dict[str, str]:
    ours = replace(settings.with_remote(remote), linger_seconds=float("inf"))
    return {
        **ours.child_environ(),
        "DAGSTER_HOME": str(home.folder),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        STORAGE_VARIABLE: storage.reveal(),
        "PYTHONPATH": str(settings.root),
        "PYTHONUNBUFFERED": "1",
    }


def _socket_path(settings: Settings) -> Path:
    """Return where the code server listens: for this user only, and short enough for a socket."""
    path = settings.dagster_home / "code.sock"
    if len(str(path).encode()) < 100:
        return path
    return Path(mkdtemp(prefix="tidegate-")) / "code.sock"


def _locations(url: str) -> str | None:
    """Return None while the UI is not there yet, else what keeps our definitions from loading."""
    body = json.dumps({"query": LOCATIONS}).encode()
    request = urllib.request.Request(
        f"{url}/graphql", body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            found = json.load(answer)["data"]["workspaceOrError"].get("locationEntries", [])
    except (OSError, urllib.error.URLError, ValueError, KeyError):
        return None
    if not found or found[0]["loadStatus"] == "LOADING":
        return None
    loaded = found[0]["locationOrLoadError"]
    if loaded is None or loaded["__typename"] == "PythonError":
        said = loaded or {}
        message = (said.get("cause") or said).get("message", "")
        # Until the code server listens, the UI says in one way or another that it is not there.
        is_there = message and "UNAVAILABLE" not in message and "Could not reach" not in message
        return message.strip() if is_there else None
    return ""


def _say(text: str, **where: object) -> None:
    print(text, flush=True, **where)  # type: ignore[call-overload]
