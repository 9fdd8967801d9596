"""One warm Spark for many processes: a Spark Connect server as a child of this one.

It listens on loopback, asks for a token made at its start, and ends when its parent does, however
the parent ends. (Linux ties it to the thread that started it: start it from one that stays.)
"""

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from resources.embedded.jars import spark_home
from resources.embedded.java import find_java
from resources.embedded.loopback import answers, free_port
from resources.embedded.signals import end_on_terminate, finish_first
from resources.errors import ServerNotReady
from resources.object_store import object_store
from resources.settings import SecretStr, Settings
from resources.spark import server_conf

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
START_SECONDS = 120
# Runs in the child before Java: die with the parent, unless it is gone already.
LEASH = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A server that was started; one from `start_connect_server` answers."""

    remote: SecretStr
    """Its `sc://` URL with the token: give it to `Settings.with_remote`."""

    port: int
    log: Path
    process: "subprocess.Popen[bytes]"

    def await_answer(self) -> bool:
        """Wait until it answers; return False if it has ended instead."""
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None:
            if answers(self.port):
                return True
            if time.monotonic() > deadline:
                self.stop()
                raise ServerNotReady(f"the Spark Connect server does not answer; see {self.log}")
            time.sleep(0.1)
        return False

    def stop(self) -> None:
        """End it, first by asking; safe to call twice."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_connect_server(settings: Settings) -> ConnectServer:
    """Start a server with our settings and wait until it answers; the caller stops it."""
    for _ in range(3):
        server = launch_connect_server(settings, port=free_port(), token=new_token())
        try:
            if server.await_answer():
                return server
        except BaseException:
            server.stop()
            raise
    raise ServerNotReady(f"the Spark Connect server does not start; see {server.log}")


def new_token() -> str:
    return secrets.token_urlsafe(24)


def launch_connect_server(settings: Settings, *, port: int, token: str) -> ConnectServer:
    """Start a server and do not wait; with port and token of one that ended it replaces that."""
    settings.logs.mkdir(parents=True, exist_ok=True)
    log = settings.logs / "spark-connect.out"
    with log.open("ab") as out:
        process = subprocess.Popen(
            _command(settings, port),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=_environ(settings, token),
            cwd=settings.home,
            # Ctrl-C in the terminal is for us; we end it in order.
            start_new_session=True,
        )
    # By name, not by number: only then does PySpark send a token without TLS.
    remote = SecretStr(f"sc://localhost:{port}/;token={token}")
    return ConnectServer(remote=remote, port=port, log=log, process=process)


@contextmanager
def connect_server(settings: Settings) -> Iterator[ConnectServer]:
    """Give a running server and stop it afterwards, also on Ctrl-C and SIGTERM."""
    with end_on_terminate():
        server = start_connect_server(settings)
        try:
            yield server
        finally:
            with finish_first():
                server.stop()


def _command(settings: Settings, port: int) -> list[str]:
    java = find_java(settings)
    conf = {
        "spark.master": settings.spark_master,
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.app.name": "tidegate",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **server_conf(settings, java, log_name="spark-connect"),
    }
    submit = [str(spark_home() / "bin" / "spark-submit"), "--class", SERVER_CLASS]
    for key, value in conf.items():
        submit += ["--conf", f"{key}={value}"]
    leash = [sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid())]
    return [*leash, *submit, "spark-internal"]


def _environ(settings: Settings, token: str) -> dict[str, str]:
    store = object_store(settings)
    return {
        **settings.child_environ(),
        **(store.variables() if store else {}),
        "JAVA_HOME": str(find_java(settings).home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(settings.root),
        # By the environment, not as a setting: settings can be read by every session.
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
    }
