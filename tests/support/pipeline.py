"""A pipeline of a test's own on the shared servers: source database, control database, lake.

Nothing here starts Spark or runs the pipeline; `driver` does, in a process that may be killed.
"""

import itertools
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
from psycopg import sql

from resources.control_store import ControlStore
from resources.embedded.postgres import RunningPostgres
from resources.settings import SecretStr, Settings

PIPELINE = "shop"
VNODES = 4
REVENUE = (
    "SELECT region, count(*) AS orders, sum(amount) AS amount, sum(quantity) AS quantity "
    "FROM orders GROUP BY region"
)
VIEWS = {"revenue": REVENUE}
SOURCE = """\
CREATE SOURCE shop WITH (
  connector = 'postgres-cdc', hostname = SECRET embedded_host, port = SECRET embedded_port,
  username = 'postgres', password = SECRET embedded_password,
  database.name = '{database}', slot.name = '{slot}'
);
"""
TABLE = """\
CREATE TABLE {name} (*) FROM shop TABLE 'public.{name}' WITH (
  backfill.parallelism = '{parallelism}', backfill.num_rows_per_split = '{rows_per_split}',
  snapshot.batch_size = '{page_rows}', vnode_count = '{vnodes}'
);
"""
ORDERS = """\
CREATE TABLE orders (
  id bigint PRIMARY KEY, region text, amount numeric(12, 2), quantity int NOT NULL,
  paid boolean, day date, at timestamptz, note text
)"""
ROWS = """\
INSERT INTO orders
SELECT i, CASE WHEN i %% 11 > 0 THEN 'r' || i %% 10 END,
  CASE WHEN i %% 13 > 0 THEN i %% 997 + 0.25 END,
  i %% 7, i %% 2 = 0, date '2024-01-01' + i %% 100, now(), 'row ' || i
FROM generate_series(1, %(rows)s) AS i"""
# A few thousand rows: more than one partition, or code compiled for them, would be all overhead.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class TestPipeline:
    """`dsn` is the source, `control` the control store; `settings` are those of its processes."""

    __test__ = False
    settings: Settings
    dsn: str
    control: str
    views: dict[str, str]

    @property
    def home(self) -> Path:
        return self.settings.home

    @property
    def lake(self) -> Path:
        return Path(self.settings.lake)

    def source(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.dsn, autocommit=True)

    def store(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.control, autocommit=True)

    def asked(self, query: str) -> list[tuple[object, ...]]:
        """Return what the control store answers."""
        with self.store() as connection:
            return connection.execute(query.encode()).fetchall()

    def expire_leases(self) -> None:
        """Let the time pass that a dead owner's leases still have."""
        with self.store() as connection:
            connection.execute("UPDATE graphs SET lease_until = clock_timestamp()")

    @property
    def file(self) -> Path:
        """Where the pipeline is defined."""
        return self.settings.pipelines / f"{PIPELINE}.sql"

    def rewrite(self, *changes: tuple[str, str]) -> None:
        """Replace texts in the definition, each of which must be there."""
        text = self.file.read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        self.file.write_text(text)

    def states(self) -> dict[str, tuple[str, str | None]]:
        """Return (state, why) of each table and view."""
        rows = self.asked(
            "SELECT name, state, why FROM relations WHERE kind <> 'state' AND role = 'current'"
        )
        return {str(name): (str(state), why and str(why)) for name, state, why in rows}


@contextmanager
def new_pipeline(
    server: RunningPostgres,
    settings: Settings,
    remote: str,
    folder: Path,
    *,
    rows: int = 2000,
    tables: tuple[str, ...] = ("orders",),
    views: dict[str, str] | None = None,
    lease_seconds: float = 2.0,
    interval_ms: int = 500,
    full_identity: bool = False,
    retention_s: float = 3600,
    page_rows: int = 500,
    parallelism: int = 2,
) -> Iterator[TestPipeline]:
    """Make it all; afterwards the slot and both databases are gone. Tables have orders' columns."""
    mark = f"{os.getpid()}_{next(_numbers)}_{uuid.uuid4().hex[:6]}"
    source, control = f"src_{mark}", f"ctl_{mark}"
    dsn, control_dsn = server.ensure_database(source), server.ensure_database(control)
    views = VIEWS if views is None else views
    written = folder / "pipelines"
    written.mkdir(parents=True)
    text = SOURCE.format(database=source, slot=f"slot_{mark}")
    for table in tables:
        text += TABLE.format(
            name=table,
            rows_per_split=max(rows // 2, 1),
            page_rows=page_rows,
            vnodes=VNODES,
            parallelism=parallelism,
        )
    for name, query in views.items():
        text += f"CREATE MATERIALIZED VIEW {name} AS {query};\n"
    (written / f"{PIPELINE}.sql").write_text(text)
    with psycopg.connect(dsn.reveal(), autocommit=True) as connection:
        for table in tables:
            connection.execute(ORDERS.replace("orders", table, 1).encode())
            connection.execute(ROWS.replace("orders", table, 1).encode(), {"rows": rows})
            if full_identity:
                connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
        connection.execute("ANALYZE")
    mine = replace(
        settings.with_remote(SecretStr(remote)).with_secrets(server.provided_secrets()),
        home=folder,
        lake=str(folder / "lake"),
        pipelines=written,
        control_dsn=control_dsn,
        barrier_interval_ms=interval_ms,
        spark_conf=SMALL,
        lease_seconds=lease_seconds,
        retention_seconds=retention_s,
        idle_commit_seconds=2.0,
    )
    store = ControlStore(control_dsn.reveal())
    store.migrate()
    store.close()
    try:
        yield TestPipeline(mine, dsn.reveal(), control_dsn.reveal(), views)
    finally:
        _drop(server, source, control)


def _drop(server: RunningPostgres, *databases: str) -> None:
    with psycopg.connect(server.dsn("postgres").reveal(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots "
            "WHERE database = ANY(%s) AND active",
            [list(databases)],
        )
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = ANY(%s)",
            [list(databases)],
        )
        for name in databases:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(drop)


def change_silently(pipeline: TestPipeline, *statements: str, table: str = "orders") -> None:
    """Change a source's table so that its stream says nothing of it; no other change is lost."""
    with pipeline.source() as source:
        row = source.execute("SELECT pubname FROM pg_publication").fetchone()
        assert row is not None
        publication = sql.Identifier(str(row[0]))
        name = sql.Identifier(table)
        with source.transaction():
            source.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(name))
            source.execute(sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(publication, name))
            for statement in statements:
                source.execute(statement.encode())
            source.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(publication, name))


def lose_slot(pipeline: TestPipeline) -> None:
    """Drop the slot behind the pipeline's back."""
    with pipeline.source() as source:
        source.execute(
            "SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots "
            "WHERE database = current_database() AND active"
        )
        source.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database()"
        )
