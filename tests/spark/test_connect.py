"""What the rest of the code asks of a Spark Connect session, asked of the real server."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.proto import AnalyzePlanRequest, SparkConnectServiceStub

from resources.settings import Settings
from resources.spark import SESSION_CONF, close_session, is_connect, new_session

STAMP = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """A Delta table (id, v) with ids 0 to 4, all v = 'old', at version 0."""
    path = str(tmp_path / "table")
    spark.sql("SELECT id, 'old' AS v FROM range(5)").write.format("delta").save(path)
    return path


def test_it_is_connect_with_our_settings(spark: SparkSession) -> None:
    assert is_connect(spark)
    assert {key: spark.conf.get(key) for key in SESSION_CONF} == SESSION_CONF


def test_merge_and_time_travel(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"MERGE INTO delta.`{table}` AS t USING (SELECT id FROM range(3, 7)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'new' WHEN NOT MATCHED THEN INSERT (id, v) "
        "VALUES (s.id, 'new')"
    )
    now = {r.id: r.v for r in spark.read.format("delta").load(table).collect()}
    assert now == {0: "old", 1: "old", 2: "old", 3: "new", 4: "new", 5: "new", 6: "new"}
    before = spark.read.format("delta").option("versionAsOf", 0).load(table)
    assert {r.v for r in before.collect()} == {"old"} and before.count() == 5


def test_a_new_session_stamps_only_its_own_commits(spark: SparkSession, table: str) -> None:
    stamped = new_session(spark)
    stamped.conf.set(STAMP, "epoch 7")
    stamped.sql(f"UPDATE delta.`{table}` SET v = 'stamped' WHERE id = 0")
    close_session(stamped)
    spark.sql(f"UPDATE delta.`{table}` SET v = 'plain' WHERE id = 1")
    history = spark.sql(f"DESCRIBE HISTORY delta.`{table}`").orderBy("version").collect()
    assert [row.userMetadata for row in history] == [None, "epoch 7", None]


def test_arrow_functions_import_the_project(spark: SparkSession) -> None:
    def in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from resources.clock import SystemClock

        assert SystemClock().now_ms() > 0
        for batch in batches:
            found = {"n": [batch.num_rows], "python": [sys.executable]}
            yield pa.RecordBatch.from_pydict(found)

    result = spark.range(1).mapInArrow(in_worker, "n long, python string").toArrow()
    assert result.to_pylist() == [{"n": 1, "python": sys.executable}]


def test_nested_parquet_of_pyarrow(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"id": 1, "new": {"a": 5, "tags": ["x", None]}, "old": None},
        {"id": 2, "new": None, "old": {"a": None, "tags": []}},
    ]
    image = pa.struct([("a", pa.int64()), ("tags", pa.list_(pa.string()))])
    schema = pa.schema([("id", pa.int64()), ("new", image), ("old", image)])
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "log.parquet")
    read = spark.read.parquet(str(tmp_path / "log.parquet")).orderBy("id")
    assert read.toArrow().to_pylist() == rows
    assert [r.a for r in read.selectExpr("new.a AS a").collect()] == [5, None]


def test_an_early_date_is_not_shifted(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT DATE'1066-10-14' AS d").write.parquet(str(tmp_path / "d"))
    assert [str(d) for d in pq.read_table(tmp_path / "d")["d"].to_pylist()] == ["1066-10-14"]


def test_no_token_no_session(spark_remote: str) -> None:
    address = spark_remote.removeprefix("sc://").partition("/;")[0]
    ask = AnalyzePlanRequest(session_id="00112233-4455-6677-8899-aabbccddeeff")
    ask.spark_version.SetInParent()
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
        SparkConnectServiceStub(channel).AnalyzePlan(ask, timeout=20)
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_ansi_refuses_an_overflow(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="ARITHMETIC_OVERFLOW"):
        spark.sql("SELECT 9223372036854775807 + id FROM range(1, 2)").collect()


PARENT = """
from resources.settings import load_settings
from resources.embedded.connect_server import start_connect_server
import time
print(start_connect_server(load_settings()).process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent")
def test_the_server_dies_with_its_parent(session_settings: Settings, tmp_path: Path) -> None:
    environ = {**session_settings.child_environ(), "PYTHONPATH": str(session_settings.root)}
    environ["TIDEGATE_HOME"] = str(tmp_path)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], env=environ, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    server = int(parent.stdout.readline())
    watch = os.pidfd_open(server)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ended, _, _ = select.select([watch], [], [], 30)
    os.close(watch)
    if not ended:
        os.kill(server, signal.SIGKILL)
    assert ended, "the server outlived its parent"
