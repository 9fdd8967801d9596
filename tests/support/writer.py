"""A live writer: keeps changing the source's orders until it is stopped, from a fixed seed.

It runs in the test's own process, so that it outlives the process that is killed.
"""

import random
import threading
from types import TracebackType
from typing import Any

import psycopg

REGIONS = ("r0", "r1", "r2", "r3", "r9", "new", None)


class LiveWriter:
    """Writes from entry to exit of its block; `transactions` counts what was committed."""

    def __init__(
        self, dsn: str, *, rows: int, seed: int = 1, table: str = "orders", pause_s: float = 0.04
    ) -> None:
        self._dsn, self._table, self._pause_s = dsn, table, pause_s
        self._random = random.Random(seed)
        self._next = rows + 1
        self._halt = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live writer", daemon=True)
        self._error: BaseException | None = None
        self.transactions = 0

    def __enter__(self) -> "LiveWriter":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Return once the last transaction is committed; safe to call twice."""
        self._halt.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while not self._halt.is_set():
                    self._write(connection)
                    self._halt.wait(self._pause_s)
        except BaseException as error:
            self._error = error

    def _write(self, connection: psycopg.Connection[Any]) -> None:
        turn = self._random.randrange(10)
        if turn < 3:
            self._insert(connection)
        elif turn < 5:
            self._update(connection)
        elif turn == 5:
            self._run_sql(connection, "DELETE FROM {} WHERE id = %s", self._some_id())
        elif turn == 6:
            self._move_key(connection)
        elif turn < 9:
            with connection.transaction():
                self._many(connection)
        else:
            with connection.transaction(force_rollback=True):
                self._many(connection)
            return
        self.transactions += 1

    def _many(self, connection: psycopg.Connection[Any]) -> None:
        """Several rows, one of them more than once, and a key that leaves and comes back."""
        self._insert(connection)
        chosen = self._some_id()
        self._run_sql(connection, "UPDATE {} SET quantity = quantity + 1 WHERE id = %s", chosen)
        self._run_sql(connection, "UPDATE {} SET amount = amount - 1 WHERE id = %s", chosen)
        self._move_key(connection)
        gone = self._run_sql(connection, "DELETE FROM {} WHERE id = %s RETURNING id", chosen)
        if gone and self._random.random() < 0.5:
            self._insert(connection, chosen)
        low = self._some_id()
        self._run_sql(
            connection,
            "UPDATE {} SET region = %s WHERE id BETWEEN %s AND %s",
            self._random.choice(REGIONS),
            low,
            low + 20,
        )

    def _insert(self, connection: psycopg.Connection[Any], key: int | None = None) -> None:
        if key is None:
            key, self._next = self._next, self._next + 1
        amount = self._random.choice((None, self._random.randrange(10_000) / 4))
        self._run_sql(
            connection,
            "INSERT INTO {} VALUES (%s, %s, %s, %s, %s, '2024-02-02', clock_timestamp(), 'live')",
            key,
            self._random.choice(REGIONS),
            amount,
            self._random.randrange(9),
            self._random.choice((True, False, None)),
        )

    def _update(self, connection: psycopg.Connection[Any]) -> None:
        self._run_sql(
            connection,
            "UPDATE {} SET amount = %s, region = %s WHERE id = %s",
            self._random.randrange(4000) / 4,
            self._random.choice(REGIONS),
            self._some_id(),
        )

    def _move_key(self, connection: psycopg.Connection[Any]) -> None:
        """Move a row far away: mostly across splits, also into ranges that are read already."""
        key, self._next = self._next, self._next + 1
        if self._random.random() < 0.5:
            key = -key
        self._run_sql(connection, "UPDATE {} SET id = %s WHERE id = %s", key, self._some_id())

    def _some_id(self) -> int:
        return self._random.randrange(1, self._next)

    def _run_sql(self, connection: psycopg.Connection[Any], text: str, *values: object) -> int:
        return connection.execute(text.format(self._table).encode(), values).rowcount
