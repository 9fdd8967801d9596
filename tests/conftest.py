"""Servers the tests share: one Spark Connect server, a Postgres for each process of the tests.

A Postgres of their own, since a transaction that one test holds open is waited for by whoever
prepares a source on the same server.
"""

import os
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
from psycopg import sql

from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres
from resources.settings import SecretStr, Settings, load_settings
from tests.support.shared_spark import shared_spark

# Imported where used: the fast tier must not pay for PySpark.
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

hypothesis.settings.register_profile("ci", max_examples=50, deadline=None)
hypothesis.settings.register_profile("long", max_examples=2000, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-death-alone", action="store_true", help="judge after each kill, not each life"
    )
    parser.addoption(
        "--unsettled", action="store_true", help="also what is known to fail or was never seen pass"
    )
    parser.addoption("--hypothesis-long", action="store_true", help="2000 examples per property")


def pytest_configure(config: pytest.Config) -> None:
    long = config.getoption("--hypothesis-long") or os.environ.get("HYPOTHESIS_LONG")
    hypothesis.settings.load_profile("long" if long else "ci")
    # Started in the background, a process has SIGINT ignored; Dagster then makes SIGTERM the same,
    # and no child of the tests could be ended by either.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark by folder, so that the fast tier is what is left; what takes longest begins first."""
    if not config.getoption("--unsettled"):
        left = [item for item in items if item.get_closest_marker("unsettled")]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]
    for item in items:
        for folder, mark in (("spark", "spark"), ("system", "system")):
            if Path(item.path).parent.name == folder:
                item.add_marker(mark)
    order = ("system", "orchestration", "spark")
    items.sort(key=lambda i: [Path(i.path).parent.name == folder for folder in order], reverse=True)


@pytest.fixture(scope="session")
def session_home() -> Iterator[Path]:
    """A home for the whole session; open to all, so that a server run as `nobody` reaches it."""
    with tempfile.TemporaryDirectory(prefix="tidegate-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def session_settings(session_home: Path) -> Settings:
    """Settings of an empty deployment; the developer's own variables do not reach the tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")}
    if "TIDEGATE_CACHE" in os.environ:
        clean["TIDEGATE_CACHE"] = os.environ["TIDEGATE_CACHE"]
    return load_settings({**clean, "TIDEGATE_HOME": str(session_home)})


@pytest.fixture(scope="session")
def postgres(session_home: Path) -> Iterator[RunningPostgres]:
    with EmbeddedPostgres(session_home, durable=False).acquire() as server:
        yield server


@pytest.fixture
def database(postgres: RunningPostgres) -> Iterator[str]:
    """The DSN of a new, empty database; dropped with its slots afterwards."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield postgres.ensure_database(name).reveal()
    with psycopg.connect(postgres.dsn("postgres").reveal(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
            "WHERE database = %s AND active",
            [name],
        )
        _drop_slots(connection, name)
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
        connection.execute(drop)


def _drop_slots(connection: psycopg.Connection, database: str) -> None:
    """Drop the database's slots, waiting (at most 10 s) for their readers to be gone."""
    connection.execute(
        "DO $$ BEGIN FOR i IN 1..100 LOOP "
        f"EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = '{database}' "
        "AND active); PERFORM pg_sleep(0.1); END LOOP; END $$"
    )
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
        [database],
    )


@pytest.fixture(scope="session")
def spark_remote(
    session_settings: Settings, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[str]:
    """The `sc://` URL, token included, of the one Spark server that all processes share."""
    mine = tmp_path_factory.getbasetemp()
    with shared_spark(mine if worker_id == "master" else mine.parent, session_settings) as remote:
        yield remote


@pytest.fixture(scope="session")
def spark_session(session_settings: Settings, spark_remote: str) -> Iterator["SparkSession"]:
    from resources.spark import close_session, open_session

    session = open_session(session_settings.with_remote(SecretStr(spark_remote)), "tests")
    yield session
    close_session(session)


@pytest.fixture
def spark(spark_session: "SparkSession") -> Iterator["SparkSession"]:
    """A session of the test's own: settings and views made in it end with it."""
    from resources.spark import close_session, new_session

    session = new_session(spark_session)
    yield session
    close_session(session)
