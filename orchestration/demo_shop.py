"""The demo's shop: its orders, a writer that keeps changing them, and the judge at the end."""

import random
import threading
import time
from types import TracebackType

import adbc_driver_postgresql.dbapi as adbc
import psycopg
import pyarrow as pa

from resources.sql_text import read_statement

SEED = 20210401
PAUSE_SECONDS = 0.01
REGIONS = ("north", "south", "east", "west", "online", "abroad")


def make_shop(dsn: str, rows: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(read_statement("postgres/create_demo_orders").encode())
        # Before images make ticks cheaper; without it everything works as well.
        connection.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
        insert = read_statement("postgres/insert_demo_orders")
        connection.execute(insert.encode(), {"rows": rows})
        connection.execute("ANALYZE orders")


class Writer:
    """Keeps changing orders while it is entered: inserts, updates, deletes, changed keys."""

    def __init__(self, dsn: str, rows: int) -> None:
        self.transactions = 0
        self.changes = 0
        self._dsn, self._rows = dsn, rows
        self._leaving = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name="shop writer", daemon=True)

    def __enter__(self) -> "Writer":
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
        self._leaving.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _guarded(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._error = error

    def _write(self) -> None:
        chance = random.Random(SEED)
        newest = self._rows
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._leaving.is_set():
                with connection.transaction():
                    for _ in range(chance.randrange(1, 12)):
                        newest = self._change(connection, chance, newest)
                self.transactions += 1
                time.sleep(PAUSE_SECONDS)

    def _change(
        self, connection: psycopg.Connection[tuple[object, ...]], chance: random.Random, newest: int
    ) -> int:
        some = chance.randrange(1, newest + 1)
        self.changes += 1
        match chance.randrange(8):
            case 0 | 1:
                connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, %s, %s, %s, current_date, now())",
                    (newest + 1, chance.choice(REGIONS), chance.randrange(10_000) / 100, 2, True),
                )
                return newest + 1
            case 2:
                connection.execute("DELETE FROM orders WHERE id = %s", (some,))
            case 3:
                connection.execute("UPDATE orders SET id = %s WHERE id = %s", (newest + 1, some))
                return newest + 1
            case 4:
                connection.execute("UPDATE orders SET amount = NULL WHERE id = %s", (some,))
            case _:
                connection.execute(
                    "UPDATE orders SET amount = coalesce(amount, 0) + 1, region = %s WHERE id = %s",
                    (chance.choice(REGIONS), some),
                )
        return newest


def source_rows(dsn: str, query: str, schema: pa.Schema) -> pa.Table:
    """Return a query's rows from the source, in the lake's types: what the lake is judged by."""
    with adbc.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        found = cursor.fetch_arrow_table()
    columns = []
    for field, column in zip(schema, found.columns, strict=True):
        if isinstance(column.type, pa.BaseExtensionType):
            column = pa.chunked_array([c.storage for c in column.chunks], pa.string())
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
