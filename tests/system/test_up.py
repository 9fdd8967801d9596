"""`tidegate up` as a user meets it: launch, watch, kill -9 everything, go on, Ctrl-C."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from resources.embedded.postgres import EmbeddedPostgres
from resources.settings import Settings
from tests.support.judge import require_equal
from tests.support.pipeline import ORDERS, PIPELINE, REVENUE, ROWS, SMALL, SOURCE, TestPipeline
from tests.support.up import Up

BACKFILL = ("shop", "orders", "cdc_backfill")
STREAM = "shop__stream"
TABLE = """\
CREATE TABLE orders (*) FROM shop TABLE 'public.orders' WITH (
  backfill.parallelism = '2', backfill.num_rows_per_split = '50', snapshot.batch_size = '50'
);
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Not pytest's own folder: under root the server runs as another user, who must get there."""
    with tempfile.TemporaryDirectory(prefix="tidegate-up-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def pipeline(home: Path, session_settings: Settings) -> TestPipeline:
    """1600 rows in 32 splits, in the home's own server: it is killed with the rest."""
    (home / "pipelines").mkdir()
    text = SOURCE.format(database="shop", slot="up_test") + TABLE
    text += f"CREATE MATERIALIZED VIEW revenue AS {REVENUE};\n"
    (home / "pipelines" / f"{PIPELINE}.sql").write_text(text)
    settings = replace(
        session_settings,
        home=home,
        lake=str(home / "lake"),
        pipelines=home / "pipelines",
        spark_conf=SMALL,
        spark_driver_memory="1g",
        lease_seconds=10.0,
        fold_interval_seconds=5.0,
    )
    with EmbeddedPostgres(home, durable=False).acquire() as server:
        dsn = server.ensure_database("shop").reveal()
        control = server.dsn("tidegate").reveal()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(ORDERS.encode())
            connection.execute(ROWS.encode(), {"rows": 1600})
            connection.execute("ANALYZE orders")
    return TestPipeline(settings, dsn, control, {"revenue": REVENUE})


@pytest.fixture
def up(pipeline: TestPipeline, home: Path) -> Iterator[Up]:
    made = Up(pipeline.settings, home / "up.out")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill_everything()


def in_step(pipeline: TestPipeline) -> bool:
    with suppress(psycopg.Error):
        states = pipeline.states()
        return (states["orders"][0], states["revenue"][0]) == ("Live", "Done")
    return False


def flush(pipeline: TestPipeline, up: Up) -> int:
    """Ask for a checkpoint of all there is now; return its epoch."""
    insert = "INSERT INTO commands (pipeline, kind) VALUES ('shop', 'flush') RETURNING id"
    [(command,)] = pipeline.asked(insert)
    done = f"SELECT done_epoch FROM commands WHERE id = {command} AND done_epoch IS NOT NULL"
    up.wait(lambda: pipeline.asked(done), 120)
    [(epoch,)] = pipeline.asked(done)
    assert isinstance(epoch, int)
    return epoch


def test_up(pipeline: TestPipeline, up: Up) -> None:
    up.start()
    up.wait(lambda: up.runs(STREAM), 60)  # by itself
    up.launch(*BACKFILL, partitions=("00", "15"))
    counts: set[int] = set()

    def all_filled() -> bool:
        counts.add(up.materialized(*BACKFILL))
        return max(counts) == 16

    up.wait(all_filled, 240)
    assert len(counts) >= 3, f"nobody could watch it: {sorted(counts)}"
    up.wait(lambda: in_step(pipeline), 180)  # the sensor has filled the view, too
    assert require_equal(pipeline, flush(pipeline, up)) > 1600
    told = pipeline.settings.logs.joinpath("code-server.log").read_text()
    password = (pipeline.home / "postgres" / "password").read_text()
    assert password not in told and password not in up.said()

    [(before, _)] = up.runs(STREAM)
    assert up.kill_everything() > 6 and up.left() == []
    with EmbeddedPostgres(pipeline.home, durable=False).acquire(), pipeline.source() as source:
        source.execute("INSERT INTO orders (id, region, quantity) VALUES (9001, 'late', 1)")
        source.execute("UPDATE orders SET amount = 1 WHERE id <= 100")
        source.execute("DELETE FROM orders WHERE id = 200")

    begun = time.monotonic()
    up.start()
    [*_, (oldest, status)] = up.runs(STREAM)
    assert (oldest, status) == (before, "FAILURE"), "what was under way is marked failed"
    epoch = flush(pipeline, up)
    assert require_equal(pipeline, epoch) > 1600, "and it has gone on by itself"
    assert time.monotonic() - begun < 180

    assert up.interrupt() == 0, up.said()
    assert up.left() == []
