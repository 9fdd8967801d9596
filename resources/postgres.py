"""A Postgres source: its catalog, its publication and slot, and the marks we write into its stream.

Everything here is a short step of its own, safe to repeat. LSNs are ints. The stream itself is read
by `postgres_slot.SlotReader`, pages by `postgres_page.read_page`.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from resources.postgres_keys import KeySource
from resources.postgres_link import Session, SourceBusy, SourceRefused
from resources.postgres_table import (
    AttributeDescription,
    TableDescription,
    attributes,
    describe,
    quoted,
)

OLDEST_VERSION = 140_000
POLL_SECONDS = 0.1


class TransactionsStillRunning(SourceBusy):
    """Transactions older than our mark did not end in time; `who` names them."""

    def __init__(self, who: Sequence[str], seconds: float) -> None:
        self.who = tuple(who)
        super().__init__(
            f"still waiting after {seconds:.0f} s for transactions that began earlier: "
            f"{'; '.join(who)}; end them or wait"
        )


class SlotLost(SourceRefused):
    """The server has thrown away changes the slot still needed."""

    def __init__(self, slot: str) -> None:
        self.slot = slot
        super().__init__(
            f"slot {slot} is lost: the server removed WAL it still needed "
            "(max_slot_wal_keep_size); `tidegate repair` with the pipeline's name makes a new one"
        )


@dataclass(frozen=True, slots=True)
class SlotState:
    name: str
    kind: str
    plugin: str | None
    database: str | None
    temporary: bool
    active: bool
    active_pid: int | None
    wal_status: str | None
    """reserved, extended, unreserved (in danger) or lost."""
    safe_wal_bytes: int | None
    """How much more may be written before the slot is in danger; None for no limit."""
    confirmed_flush_lsn: int | None
    restart_lsn: int | None
    retained_bytes: int | None


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """Two reads that differ are not the same server with the same history."""

    system_identifier: str
    timeline: int


class PostgresSource(KeySource):
    """One database of a server, seen as a source of changes."""

    def problems(self) -> list[str]:
        """Return what keeps the server from being a source, each with what to do."""
        with self.session() as session:
            return _problems(session.the_row("select_server"))

    def require_ready(self) -> None:
        found = self.problems()
        if found:
            raise SourceRefused(f"{self.where}: " + "; ".join(found))

    def describe_table(
        self,
        schema: str,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        excluded: Collection[str] = (),
        text_numerics: bool = False,
    ) -> TableDescription:
        """Return the table with all its columns but those `excluded`, or with the named ones.

        What cannot be kept is refused with a way out.
        """
        with self.session() as session:
            return describe(
                session,
                schema,
                table,
                columns=columns,
                excluded=excluded,
                text_numerics=text_numerics,
            )

    def generated_columns(self, schema: str, table: str) -> list[str]:
        """Return the columns that the source computes, which are not in the stream."""
        with self.session() as session:
            found = session.row("select_table", schema=schema, table=table)
            rows = [] if found is None else session.rows("select_columns", oid=found["oid"])
            return [row["name"] for row in rows if row["generated"]]

    def attributes(self, oid: int, text_numerics: bool) -> list[AttributeDescription]:
        """Return a table's columns as they are now, with what rows of before have in each."""
        with self.session() as session:
            return attributes(session, oid, text_numerics=text_numerics)

    def has_publication(self, name: str) -> bool:
        with self.session() as session:
            return session.row("select_publication", publication=name) is not None

    def unpublished(
        self, name: str, tables: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], str]:
        """Return which of these tables are not published whole, and how that is."""
        with self.session() as session:
            found = session.row("select_publication", publication=name)
            if found is None:
                return dict.fromkeys(tables, f"publication {name} is gone from the source")
            if not found["publishes_all"]:
                what = f"publication {name} no longer publishes every kind of change"
                return dict.fromkeys(tables, what)
            covered = session.rows("select_covered_tables", publication=name)
            there = {(row["schema"], row["table"]) for row in covered}
            partly = {
                (row["schema"], row["table"])
                for row in session.rows("select_published_tables", oid=found["oid"])
                if row["has_filter"] or row["has_column_list"]
            }
        gone = {t: f"it was taken out of publication {name}" for t in tables if t not in there}
        return gone | {
            t: f"publication {name} shows only a part of it" for t in tables if t in partly
        }

    def ensure_publication(self, name: str, tables: Iterable[tuple[str, str]]) -> list[str]:
        """Have `tables` published whole; return the names of those that were added.

        Must come before `ensure_slot`: a slot older than its publication cannot be read. After a
        table was added, await the running transactions before the table is read.
        """
        with self.session() as session:
            found = session.row("select_publication", publication=name)
            if found is None:
                _create_publication(session, name)
                found = session.the_row("select_publication", publication=name)
            _refuse_publication(session, name, found)
            covered = session.rows("select_covered_tables", publication=name)
            there = {(row["schema"], row["table"]) for row in covered}
            missing = [table for table in dict.fromkeys(tables) if table not in there]
            for schema, table in missing:
                _add_table(session, name, schema, table)
            return [f"{schema}.{table}" for schema, table in missing]

    def ensure_slot(self, name: str, *, timeout_s: float = 60) -> int:
        """Have a pgoutput slot; return up to where it is confirmed (where a new one begins).

        The server makes a slot only once every transaction that was running has ended; past
        `timeout_s` this says whose they are. An active slot is fine here: our own stream may be
        reading it. Who else tries to read it is told by `SlotReader.start`.
        """
        with self.session(statement_seconds=timeout_s) as session:
            state = _slot(session, name)
            if state is None:
                _create_slot(session, name, timeout_s)
                state = _slot(session, name)
            assert state is not None, "just made"
            database = session.the_row("select_server")["database"]
            return _confirmed(state, database)

    def slot_state(self, name: str) -> SlotState | None:
        with self.session() as session:
            return _slot(session, name)

    def disconnect_reader(self, name: str, *, silent_s: float = 10, timeout_s: float = 20) -> None:
        """End the connection that reads the slot once it has been silent; a live one stays.

        Our readers speak every few seconds whatever they do, so that a silent one hangs.
        """
        deadline = time.monotonic() + timeout_s
        with self.session() as session:
            while (state := _slot(session, name)) is not None and state.active:
                session.rows("disconnect_reader", pid=state.active_pid, seconds=silent_s)
                if time.monotonic() > deadline:
                    raise SourceBusy(
                        f"slot {name} is being read by another live process (server process "
                        f"{state.active_pid}); stop it, or give this source another slot.name"
                    )
                time.sleep(POLL_SECONDS)

    def drop_slot(self, name: str) -> None:
        """Drop the slot if it is there; refused while somebody reads it."""
        with self.session() as session:
            try:
                session.rows("drop_slot", slot=name)
            except psycopg.errors.ObjectInUse as error:
                raise SourceBusy(f"slot {name} is being read; stop its pipeline first") from error
            except psycopg.errors.UndefinedObject:
                return  # somebody else dropped it between our look and our call

    def drop_publication(self, name: str) -> None:
        with self.session() as session:
            session.execute_named("drop_publication", publication=sql.Identifier(name))

    def drop_publication_table(self, name: str, schema: str, table: str) -> None:
        """Stop publishing a table; nothing happens if it is not published or not there."""
        parts = {"publication": sql.Identifier(name), "table": sql.Identifier(schema, table)}
        with self.session() as session:
            try:
                session.execute_named("drop_publication_table", **parts)
            except (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedTable):
                return
            except psycopg.errors.ObjectNotInPrerequisiteState:
                return  # it publishes all tables: there is no entry of this one
            except psycopg.errors.InvalidSchemaName:
                return

    def await_running_transactions(self, on_wait: Callable[[str], None], timeout_s: float) -> float:
        """Return, with the seconds it took, once all transactions running now have ended.

        What they wrote is then visible to every later read. `on_wait` is told whom it waits for,
        once for each new answer. No transaction of ours may be open on this server meanwhile.
        """
        start = time.monotonic()
        with self.session() as session:
            mark = session.the_row("take_transaction_id")["xid"]
            told = ""
            while session.the_row("select_oldest_transaction")["xmin"] <= mark:
                who = _running(session, mark)
                if "; ".join(who) != told:
                    told = "; ".join(who)
                    on_wait(told)
                if time.monotonic() - start > timeout_s:
                    raise TransactionsStillRunning(who, timeout_s)
                time.sleep(POLL_SECONDS)
        return time.monotonic() - start

    def identity(self) -> ServerIdentity:
        with self.session() as session:
            return ServerIdentity(**session.the_row("select_identity"))

    def emit_message(self, prefix: str, content: str) -> int:
        """Write a transactional message into the stream; return its LSN once it is durable.

        A row that was read before from an asynchronous commit is durable by then as well.
        """
        with self.session() as session:
            session.connection.execute("SET synchronous_commit = on")
            return int(session.the_row("emit_message", prefix=prefix, content=content)["lsn"])


def _problems(server: dict[str, Any]) -> list[str]:
    user = quoted(server["username"])
    found = []
    if server["version"] < OLDEST_VERSION:
        found.append("its version is older than 14; upgrade it")
    if server["wal_level"] != "logical":
        found.append(
            f"wal_level is {server['wal_level']}; run: ALTER SYSTEM SET wal_level = 'logical' "
            "and restart the server"
        )
    if not server["may_replicate"]:
        found.append(f"{user} may not replicate; run: ALTER ROLE {user} REPLICATION")
    if server["is_standby"]:
        found.append("it is a standby, which takes no publication; connect to the primary")
    if server["encoding"] == "SQL_ASCII":
        found.append("its encoding is SQL_ASCII, so its text has no known meaning; use UTF8")
    if server["max_senders"] < 1 or server["max_slots"] < 1:
        found.append(
            "it allows no replication; run: ALTER SYSTEM SET max_wal_senders = 10, the same for "
            "max_replication_slots, and restart the server"
        )
    return found


def _create_publication(session: Session, name: str) -> None:
    try:
        session.execute_named("create_publication", publication=sql.Identifier(name))
    except psycopg.errors.DuplicateObject:
        return  # another run made it at the same moment
    except psycopg.errors.InsufficientPrivilege as error:
        server = session.the_row("select_server")
        database, user = quoted(server["database"]), quoted(server["username"])
        raise SourceRefused(
            f"publication {name} cannot be made; run: GRANT CREATE ON DATABASE {database} TO "
            f"{user}, or as the owner of the tables: CREATE PUBLICATION {quoted(name)}"
        ) from error


def _refuse_publication(session: Session, name: str, found: dict[str, Any]) -> None:
    if not found["publishes_all"]:
        raise SourceRefused(
            f"publication {name} does not publish every kind of change; run: ALTER PUBLICATION "
            f"{quoted(name)} SET (publish = 'insert, update, delete, truncate')"
        )
    for row in session.rows("select_published_tables", oid=found["oid"]):
        if row["has_filter"] or row["has_column_list"]:
            part = "rows" if row["has_filter"] else "columns"
            table = quoted(row["schema"], row["table"])
            raise SourceRefused(
                f"publication {name} shows only some {part} of {table}; run: ALTER PUBLICATION "
                f"{quoted(name)} DROP TABLE {table}, and it will be added whole"
            )


def _add_table(session: Session, name: str, schema: str, table: str) -> None:
    parts = {"publication": sql.Identifier(name), "table": sql.Identifier(schema, table)}
    try:
        session.execute_named("add_publication_table", **parts)
    except psycopg.errors.DuplicateObject:
        return  # another run added it at the same moment
    except psycopg.errors.UndefinedTable as error:
        raise SourceRefused(f"there is no table {schema}.{table} to publish") from error
    except psycopg.errors.InsufficientPrivilege as error:
        target, publication = quoted(schema, table), quoted(name)
        raise SourceRefused(
            f"{target} cannot be added to publication {name}; run as the owner of both: "
            f"ALTER PUBLICATION {publication} ADD TABLE ONLY {target}"
        ) from error


def _slot(session: Session, name: str) -> SlotState | None:
    found = session.row("select_slot", slot=name)
    return None if found is None else SlotState(**found)


def _create_slot(session: Session, name: str, timeout_s: float) -> None:
    try:
        session.rows("create_slot", slot=name)
    except psycopg.errors.DuplicateObject:
        return  # another run made it at the same moment
    except psycopg.errors.QueryCanceled as error:
        mark = session.the_row("select_oldest_transaction")["xmin"] + 1
        raise TransactionsStillRunning(_running(session, mark), timeout_s) from error
    except psycopg.errors.InvalidName as error:
        raise SourceRefused(
            f"{name!r} cannot name a slot; set slot.name to lower-case letters, digits and _"
        ) from error
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        raise SourceRefused(f"no slot can be made: {error}; set wal_level = logical") from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise SourceRefused(
            "all replication slots are in use; drop one that nobody reads (pg_replication_slots), "
            "or raise max_replication_slots and restart the server"
        ) from error


def _confirmed(state: SlotState, database: str) -> int:
    """Return where a slot stands that is ours to read; refuse one that is not."""
    if state.kind != "logical" or state.plugin != "pgoutput":
        what = state.plugin or state.kind
        raise SourceRefused(
            f"slot {state.name} exists for {what}, not pgoutput; choose another name"
        )
    if state.database != database:
        raise SourceRefused(
            f"slot {state.name} belongs to database {state.database}, not {database}; "
            "choose another slot.name"
        )
    if state.temporary:
        raise SourceRefused(f"slot {state.name} is temporary; choose another slot.name")
    if state.wal_status == "lost" or state.confirmed_flush_lsn is None:
        raise SlotLost(state.name)
    return state.confirmed_flush_lsn


def _running(session: Session, mark: int) -> list[str]:
    who = [row["who"] for row in session.rows("select_running_transactions", xid=mark)]
    return who or ["a transaction of another user (GRANT pg_read_all_stats to see whose)"]
