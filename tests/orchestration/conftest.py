"""A shop of its own for each test: a source, a control store, and the environment for them."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from orchestration.definitions import build_definitions
from orchestration.deployment import Deployment, read_pipelines
from orchestration.opened import DeploymentResource, SparkResource, close_opened

PIPELINE = """
CREATE SOURCE place WITH (
  connector = 'postgres-cdc', hostname = '{host}', port = '{port}', username = '{user}',
  password = SECRET place_password, database.name = '{dbname}', slot.name = '{slot}'
);
CREATE TABLE orders (*) FROM place TABLE 'public.orders' WITH (
  backfill.num_rows_per_split = '50', snapshot.batch_size = '50'
);
CREATE MATERIALIZED VIEW revenue AS
  SELECT region, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY region;
"""
ROWS = 1000


@dataclass(frozen=True)
class Shop:
    dsn: str = field(repr=False)
    folder: Path

    @property
    def definitions(self) -> dg.Definitions:
        return build_definitions(read_pipelines(self.folder))

    @property
    def deployment(self) -> Deployment:
        return DeploymentResource(spark=SparkResource()).open()

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def shop(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Made of a table without rows in it yet; nothing of ours is opened."""
    where = conninfo_to_dict(database)
    folder = tmp_path / "pipelines"
    folder.mkdir()
    text = PIPELINE.format(**where, slot=f"slot_{uuid.uuid4().hex[:12]}")
    (folder / "shop.sql").write_text(text)
    for name, value in {
        "HOME": str(tmp_path / "home"),
        "PIPELINES": str(folder),
        "CONTROL_DSN": database,
        "SECRET_PLACE_PASSWORD": str(where["password"]),
        "LEASE_SECONDS": "5",
    }.items():
        monkeypatch.setenv(f"TIDEGATE_{name}", value)
    made = Shop(database, folder)
    made.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY, region text, amount numeric(12,2));"
        "ALTER TABLE orders REPLICA IDENTITY FULL"
    )
    yield made
    close_opened()


@pytest.fixture
def full_shop(shop: Shop) -> Shop:
    shop.run(
        f"INSERT INTO orders SELECT i, 'r' || i % 5, i + 0.25 FROM generate_series(1, {ROWS}) i;"
        "ANALYZE orders"
    )
    return shop


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as made:
        yield made
