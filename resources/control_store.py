"""The control store: a Postgres that holds what is committed, by whom, and from which files.

It runs named statements; what they mean is decided by whoever runs them. Each thread has a
connection of its own, in autocommit, which ends with the thread; `transaction()` groups statements.
A connection lost while COMMIT was under way leaves the outcome unknown: that error says so
(`commit_unknown`), and the caller asks the store what happened.
"""

import contextlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from resources.errors import ConfigError, TransientError
from resources.sql_text import migrations, read_statement

MIGRATION_LOCK = 0x71D6A7E
LOCK_POLL_SECONDS = 0.1
LOCK_TELL_SECONDS = 10.0


class StoreUnreachable(TransientError):
    """The store cannot be reached; `commit_unknown` if a COMMIT may or may not have happened."""

    def __init__(self, reason: str, *, commit_unknown: bool = False) -> None:
        self.commit_unknown = commit_unknown
        super().__init__(f"the control store cannot be reached: {reason}")


class Statements:
    """Named statements on one connection."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        self._connection = connection

    def query(self, statement: str, /, **values: Any) -> list[dict[str, Any]]:
        return self._run(statement, values).fetchall()

    def execute(self, statement: str, /, **values: Any) -> int:
        """Run a statement and return how many rows it touched."""
        return self._run(statement, values).rowcount

    def _run(self, name: str, values: dict[str, Any]) -> psycopg.Cursor[dict[str, Any]]:
        bound = {k: Jsonb(v) if isinstance(v, dict) else v for k, v in values.items()}
        # The text comes from our own sql/ folder; values are bound.
        return self._connection.execute(read_statement(f"control/{name}").encode(), bound)


class _Held:
    """A thread's connection; a thread that ends drops this, and the connection ends with it."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]]) -> None:
        self.connection = connection

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.connection.close()


class ControlStore:
    """`dsn` is a conninfo string; it is kept out of repr and errors."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._local = threading.local()
        self._open: weakref.WeakSet[_Held] = weakref.WeakSet()

    def __repr__(self) -> str:
        return "ControlStore(***)"

    def query(self, statement: str, /, **values: Any) -> list[dict[str, Any]]:
        with self._translated():
            return Statements(self._connection()).query(statement, **values)

    def execute(self, statement: str, /, **values: Any) -> int:
        with self._translated():
            return Statements(self._connection()).execute(statement, **values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Statements]:
        connection = self._connected()
        committing = False
        try:
            connection.execute("BEGIN")
            try:
                yield Statements(connection)
            except BaseException:
                if not connection.closed:
                    connection.execute("ROLLBACK")
                raise
            committing = True
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            raise StoreUnreachable(_reason(error), commit_unknown=committing) from error

    @contextlib.contextmanager
    def lock(self, name: str, on_wait: Callable[[str], None] = lambda _: None) -> Iterator[None]:
        """Hold a lock of that name among all users of the store, without an open transaction.

        It is waited for as long as its owner needs it; `on_wait` is told now and then who that is.
        """
        tell_at = time.monotonic() + LOCK_POLL_SECONDS
        # Asked again and again, not waited for in the server: its lock_timeout is for row locks.
        while not self._try_lock(name):
            if time.monotonic() >= tell_at:
                tell_at = time.monotonic() + LOCK_TELL_SECONDS
                on_wait(f"waiting for {name!r}, which {self._holder(name)} is doing")
            time.sleep(LOCK_POLL_SECONDS)
        connection = self._connection()
        try:
            yield
        finally:
            if not connection.closed:
                Statements(connection).query("unlock", name=name)

    def _try_lock(self, name: str) -> bool:
        connection = self._connected()
        with self._translated():
            return bool(Statements(connection).query("try_lock", name=name)[0]["had"])

    def _holder(self, name: str) -> str:
        for row in self.query("select_lock_holder", name=name):
            return f"{row['application_name']} on {row['host']} (server process {row['pid']})"
        return "somebody"

    def migrate(self) -> int:
        """Bring the store's tables up to this release; return its newest migration's number."""
        with self.transaction() as _:
            connection = self._connection()
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            connection.execute(
                "CREATE TABLE IF NOT EXISTS migrations ("
                "number int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
            )
            applied = {row["number"] for row in connection.execute("SELECT number FROM migrations")}
            known = dict(migrations())
            if applied - known.keys():
                raise ConfigError(
                    f"the control store was made by a newer Tidegate (migration {max(applied)}, "
                    f"this one knows {max(known)}); upgrade Tidegate"
                )
            for number, text in known.items():
                if number not in applied:
                    connection.execute(text.encode())
                    connection.execute("INSERT INTO migrations VALUES (%s)", (number,))
            return max(known)

    def close(self) -> None:
        for held in list(self._open):
            held.connection.close()
        self._open.clear()

    def _connection(self) -> psycopg.Connection[dict[str, Any]]:
        held: _Held | None = getattr(self._local, "held", None)
        if held is None or held.connection.closed:
            held = _Held(
                psycopg.connect(
                    self._dsn,
                    autocommit=True,
                    row_factory=dict_row,
                    application_name="tidegate-control",
                    connect_timeout=10,
                    options="-c TimeZone=UTC -c lock_timeout=60000",
                )
            )
            self._local.held = held
            self._open.add(held)
        return held.connection

    def _connected(self) -> psycopg.Connection[dict[str, Any]]:
        """Return a connection that answered just now; a dead one is replaced."""
        with self._translated():
            connection = self._connection()
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                connection.close()
                connection = self._connection()
            return connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.OperationalError as error:
            raise StoreUnreachable(_reason(error)) from error


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
