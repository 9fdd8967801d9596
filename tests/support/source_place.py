"""A Postgres database to be a source in a test, with a way to read its stream to a mark."""

import itertools
import time
from collections.abc import Callable

import psycopg
import pyarrow as pa

from ops.backfill.cdc.pgoutput import (
    Begin,
    Binding,
    Commit,
    Decoder,
    Event,
    LogicalMessage,
    TableName,
)
from ops.common.schema import Column, DataType, Schema
from resources.embedded.postgres import RunningPostgres
from resources.postgres import PostgresSource
from resources.postgres_link import SourceBusy
from resources.postgres_page import page_dsn, page_query, read_page
from resources.postgres_slot import SlotReader

PUBLICATION = 'Pub "1"'
numbers = itertools.count()
# A database costs 150 ms to make and a few to clear, so the tests share one.
CLEAR = """DO $$
DECLARE statement text;
BEGIN
  FOR statement IN
    SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication
    UNION ALL
    SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace
    WHERE nspname <> 'information_schema' AND nspname !~ '^pg_'
    UNION ALL
    SELECT 'CREATE SCHEMA public'
  LOOP
    EXECUTE statement;
  END LOOP;
END $$"""
TYPES = """id int8 PRIMARY KEY, small int2, middle int4 NOT NULL, money numeric(12,2),
    wide numeric(38,18), free numeric, flat numeric(38,0), word text, short varchar(20),
    fixed char(5), flag bool, day date, at timestamp, at_z timestamptz(3)"""
"""A column of every type there is in the slice."""


class Place:
    """A database of its own with a source on it."""

    def __init__(self, server: RunningPostgres, name: str) -> None:
        self.name = name
        self.slot = f"slot_{next(numbers)}"
        self.source = PostgresSource(
            {
                "host": server.host,
                "port": server.port,
                "user": server.user,
                "password": server.password,
                "dbname": name,
            }
        )
        self.connection = psycopg.connect(server.dsn(name).reveal(), autocommit=True)
        self.readers: list[SlotReader] = []

    def run(self, *statements: str) -> None:
        for text in statements:
            self.connection.execute(text.encode())

    def bound(self, *tables: str) -> dict[TableName, Binding]:
        return {("public", table): self.binding(table) for table in tables}

    def binding(self, table: str, *, text_numerics: bool = False) -> Binding:
        found = self.source.describe_table("public", table, text_numerics=text_numerics)
        columns = [Column(c.name, DataType.parse(c.type), c.nullable) for c in found.columns]
        return Binding(
            Schema(tuple(columns), found.key),
            found.oid,
            found.identity,
            types={c.name: (c.type_oid, c.modifier) for c in found.columns},
        )

    def prepare(self, *tables: str) -> int:
        self.source.ensure_publication(PUBLICATION, [("public", table) for table in tables])
        return self.source.ensure_slot(self.slot)

    def reader(self, from_lsn: int, *, feedback_s: float = 5, binary: bool = True) -> SlotReader:
        reader = SlotReader(self.source, feedback_s=feedback_s)
        self.readers.append(reader)
        reader.start(self.slot, PUBLICATION, from_lsn, binary=binary)
        return reader

    def events(self, reader: SlotReader, decoder: Decoder) -> list[Event]:
        """Write a mark and return everything before it."""
        mark = f"mark {next(numbers)}"
        self.source.emit_message("test", mark)
        found: list[Event] = []
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for _, payload in reader.poll(1):
                event = decoder.decode(payload)
                if event is not None:
                    found.append(event)
            if isinstance(found[-1] if found else None, Commit) and any(
                isinstance(e, LogicalMessage) and e.content == mark.encode() for e in found
            ):
                return found
        raise AssertionError(f"the mark did not arrive after {found}")

    def rows(self, reader: SlotReader, decoder: Decoder) -> list[Event]:
        """Return what comes without transaction boundaries and messages."""
        around = (Begin, Commit, LogicalMessage)
        return [e for e in self.events(reader, decoder) if not isinstance(e, around)]

    def page(self, table: str, *, text_numerics: bool = False) -> pa.Table:
        bound = self.binding(table, text_numerics=text_numerics).schema
        columns = [(c.name, str(c.type)) for c in bound.columns]
        key = self.source.key_columns("public", table, bound.key)
        query = page_query("public", table, columns, key, limit=1000)
        return read_page(page_dsn(self.source), query, columns, key)[0]

    def confirmed(self) -> int:
        state = self.source.slot_state(self.slot)
        assert state is not None and state.confirmed_flush_lsn is not None
        return state.confirmed_flush_lsn

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        until(lambda: _dropped(self))
        self.run(CLEAR)
        self.run(f"ALTER DATABASE {self.name} RESET ALL")
        self.connection.close()


def _dropped(place: Place) -> bool:
    try:
        place.source.drop_slot(place.slot)
    except SourceBusy:
        return False  # its walsender has not noticed yet that we are gone
    return True


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
