"""A pipeline whose lake is a bucket: filled, followed, folded, cleared, equal to its source."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ops.barrier_worker.commit import open_attempt
from orchestration import maintenance, reading, running
from orchestration.deployment import Deployment, open_deployment
from orchestration.doctor import lake_findings
from orchestration.local_run import LocalRun
from resources.embedded.connect_server import connect_server
from resources.embedded.postgres import RunningPostgres
from resources.lake import Lake
from resources.lake_probe import LakeRefused, probe_arrow, probe_delta
from resources.object_store import object_store
from resources.settings import Settings
from tests.support.object_store import BUCKET, SECRET, LocalS3, local_s3
from tests.support.pipeline import PIPELINE, REVENUE, TestPipeline, new_pipeline

COLUMNS = "id, region, amount, quantity, paid, day, at, note"


@pytest.fixture(scope="module")
def s3() -> Iterator[LocalS3]:
    with local_s3() as server:
        yield server


@pytest.fixture(scope="module")
def settings(s3: LocalS3, session_settings: Settings) -> Settings:
    return s3.settings(session_settings, "some/prefix")


@pytest.fixture(scope="module")
def remote(settings: Settings) -> Iterator[str]:
    """A Spark of its own: the shared one has neither the jars nor the keys."""
    with connect_server(settings) as server:
        yield server.remote.reveal()


@pytest.fixture
def pipeline(
    postgres: RunningPostgres, settings: Settings, remote: str, tmp_path: Path
) -> Iterator[TestPipeline]:
    with new_pipeline(postgres, settings, remote, tmp_path, rows=600) as made:
        yield replace(
            made, settings=replace(made.settings, lake=settings.lake, retention_seconds=0.0)
        )


@pytest.mark.unsettled  # not seen since look-ups read files in the driver
def test_from_source_to_bucket(pipeline: TestPipeline, s3: LocalS3) -> None:
    with open_deployment(pipeline.settings) as deployment:
        with LocalRun(deployment, PIPELINE, tell=print) as local:
            local.wait_settled(on_progress=lambda _: None)
            with pipeline.source() as source:
                source.execute(b"UPDATE orders SET amount = 7.5, region = NULL WHERE id % 5 = 0")
                source.execute(b"DELETE FROM orders WHERE id % 50 = 1")
            running.flush(deployment, PIPELINE)
            assert_same(deployment, pipeline)
            assert set(maintenance.fold(deployment, PIPELINE, owner="test")) >= {"orders"}
            with pipeline.source() as source:
                source.execute(b"INSERT INTO orders (id, quantity) VALUES (9001, 1)")
            running.flush(deployment, PIPELINE)
            assert_same(deployment, pipeline)
            maintenance.fold(deployment, PIPELINE, owner="test")
            assert maintenance.vacuum(deployment, PIPELINE) >= 1
            assert_same(deployment, pipeline)
        check_collection(deployment, s3)
        assert not [f.problem for f in lake_findings(deployment) if f.problem is not None]
        assert not s3.keys("some/prefix/_doctor"), "the doctor leaves nothing"
        check_nothing_is_shown(deployment)


def assert_same(deployment: Deployment, pipeline: TestPipeline) -> None:
    with pipeline.source() as source:
        orders = source.execute(f"SELECT {COLUMNS} FROM orders ORDER BY id".encode()).fetchall()
        revenue = source.execute(REVENUE.encode()).fetchall()
    found = reading.rows(deployment, "orders").sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == orders
    summed = {tuple(row.values()) for row in reading.rows(deployment, "revenue").to_pylist()}
    assert summed == set(revenue)


def check_collection(deployment: Deployment, s3: LocalS3) -> None:
    """Nothing of an attempt that failed is left, not even what stands for its folder."""
    row = deployment.store.query("select_graph", graph=PIPELINE)[0]
    attempt = open_attempt(deployment.store, PIPELINE, row["term"], f"{PIPELINE}/_stream")
    rows = reading.rows(deployment, "revenue")
    deployment.lake.write(f"{attempt.directory}/orphan.parquet", rows)
    deployment.store.execute("fail_attempt", attempt=attempt.id)
    prefix = f"some/prefix/{attempt.directory}/"
    assert s3.keys(prefix) == [f"{prefix}orphan.parquet"]
    assert maintenance.collect(deployment, PIPELINE) >= 1
    assert s3.keys(prefix) == []


def check_nothing_is_shown(deployment: Deployment) -> None:
    spark = deployment.spark()
    shown = [str(tuple(row)) for row in spark.sql("SET").collect()]
    assert any("fs.s3a.endpoint" in line for line in shown), "that is how settings look"
    assert not [line for line in shown if SECRET in line]
    assert SECRET not in f"{deployment.settings!r} {deployment.lake!r}"
    logs = [p for p in deployment.settings.logs.parent.rglob("*") if p.is_file()]
    assert not [p for p in logs if SECRET.encode() in p.read_bytes()]


def test_a_bucket_that_is_not_there(settings: Settings) -> None:
    lake = Lake(f"s3://{BUCKET}-typo/x", object_store(settings))
    for probe in (probe_arrow, probe_delta):
        with pytest.raises(LakeRefused, match="TIDEGATE_S3_") as refused:
            probe(lake)
        assert SECRET not in str(refused.value)
