"""The doctor's look at the lake through Spark: it passes where two writers are kept apart."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from resources.lake import Lake
from resources.lake_probe import LakeRefused
from resources.spark_probe import probe_spark

Batches = Iterator[pa.RecordBatch]


def test_a_folder_passes_and_keeps_nothing(spark: SparkSession, lake: Lake) -> None:
    assert "is kept" in probe_spark(lake, spark)
    assert list(Path(lake.root).iterdir()) == []


def test_a_commit_that_is_gone_is_noticed(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if Spark had written over it: the other writer's commit is not there afterwards."""

    def commits_nothing(lake: Lake, path: str) -> Callable[[Batches], Batches]:
        return lambda batches: batches

    monkeypatch.setattr("resources.spark_probe.CommitFirst", commits_nothing)
    with pytest.raises(LakeRefused, match="wrote over a version"):
        probe_spark(lake, spark)
