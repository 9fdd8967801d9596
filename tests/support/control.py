"""A control store for tests, pipelines in it, and a wire to it that can be cut."""

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from psycopg.conninfo import make_conninfo

from ops.common.epoch import Epoch
from ops.common.schema import INT8, TEXT, Column, Schema
from ops.common.table.relation import Relation, find_relation, relations_of
from ops.planner.apply import main_graph, maintenance_graph, relation_graph
from resources.control_store import ControlStore
from resources.embedded.postgres import RunningPostgres

SHARED = "control_laws"
SCHEMA = Schema((Column("id", INT8), Column("v", TEXT)), ("id",))
numbers = itertools.count()


def shared_store(postgres: RunningPostgres) -> ControlStore:
    """A database costs 150 ms to make, a pipeline in it 2: the tests share one."""
    store = ControlStore(postgres.ensure_database(SHARED).reveal())
    store.migrate()
    return store


@dataclass(frozen=True)
class Place:
    """A pipeline of a test's own."""

    store: ControlStore
    pipeline: str

    @property
    def main(self) -> str:
        return main_graph(self.pipeline)

    def relation(self, name: str) -> Relation:
        return find_relation(relations_of(self.store, self.pipeline), name)

    def create(self, name: str, schema: Schema, **changed: Any) -> Relation:
        graph = changed.pop("graph", relation_graph(self.pipeline, name))
        self.store.execute("ensure_graph", graph=graph, pipeline=self.pipeline, kind="backfill")
        self.store.execute(
            "ensure_graph",
            graph=maintenance_graph(self.pipeline, name),
            pipeline=self.pipeline,
            kind="maintenance",
        )
        given = {"kind": "table", "vnode_count": 4, "upstream": None, "state": "Live"}
        self.store.query(
            "insert_relation",
            pipeline=self.pipeline,
            name=name,
            version=1,
            role="current",
            build=None,
            definition="",
            schema=schema.to_json(),
            origin=None,
            path=f"{self.pipeline}/{name}/v1",
            graph=graph,
            **(given | changed),
        )
        return self.relation(name)

    def committed(self, graph: str | None = None) -> Epoch:
        return Epoch(self.graph(graph)["committed"])

    def graph(self, graph: str | None = None) -> dict[str, Any]:
        return self.store.query("select_graph", graph=graph or self.main)[0]


def new_place(store: ControlStore) -> Place:
    pipeline = f"p{next(numbers)}"
    store.execute("ensure_pipeline", pipeline=pipeline, interval_ms=1000)
    store.execute("ensure_graph", graph=main_graph(pipeline), pipeline=pipeline, kind="main")
    return Place(store, pipeline)


@dataclass
class Wire:
    """A proxy before the server. `cut_at` says what to do with what a client sends."""

    host: str
    port: int
    forward: bool = True
    on_commit: Callable[[], None] | None = None
    """Called once, when a COMMIT was answered and before the answer is passed on."""
    drop_commit: bool = False
    """Cut the wire before a COMMIT reaches the server."""
    _listener: socket.socket = field(default_factory=socket.socket)
    _pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)

    def listen(self) -> int:
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """End every connection, as a server that restarts does."""
        pairs, self._pairs = self._pairs, []
        for sock in (s for pair in pairs for s in pair):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.forward:
                client.close()
                continue
            server = socket.create_connection((self.host, self.port))
            self._pairs.append((client, server))
            committing = threading.Event()
            threading.Thread(target=self._up, args=(client, server, committing)).start()
            threading.Thread(target=self._down, args=(client, server, committing)).start()

    def _up(self, client: socket.socket, server: socket.socket, said: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if b"COMMIT" in data:
                    if self.drop_commit:
                        self.drop_commit = False
                        self.cut()
                        return
                    said.set()
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket, said: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if said.is_set() and b"COMMIT" in data and self.on_commit is not None:
                    act, self.on_commit = self.on_commit, None
                    act()
                    return
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def wired_store(postgres: RunningPostgres) -> Iterator[tuple[ControlStore, Wire]]:
    """A store that is reached through a wire."""
    dsn = postgres.ensure_database(SHARED).reveal()
    wire = Wire(postgres.host, postgres.port)
    store = ControlStore(make_conninfo(dsn, host="127.0.0.1", port=wire.listen()))
    try:
        yield store, wire
    finally:
        wire.close()
        store.close()
