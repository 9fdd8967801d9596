"""The lake in a folder: what it names is on disk, and what it deletes leaves nothing behind."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from ops.common.table.staging import keep_written
from resources.delta import Delta
from resources.errors import BadSetting
from resources.lake import Lake
from resources.lake_probe import LakeRefused, probe_arrow, probe_delta
from resources.object_store import object_store
from resources.settings import SecretStr, load_settings

ROW = pa.table({"id": pa.array([1], pa.int64())})
S3 = {
    "TIDEGATE_LAKE": "s3a://bucket/some/prefix/",
    "TIDEGATE_S3_ENDPOINT": "http://127.0.0.1:9000/",
    "TIDEGATE_S3_ALLOW_HTTP": "True",
    "TIDEGATE_S3_PATH_STYLE": "true",
    "TIDEGATE_S3_REGION": "eu-west-1",
    "TIDEGATE_S3_ACCESS_KEY": "me",
    "TIDEGATE_S3_SECRET_KEY": "hunter2",
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were brought to disk, in order."""
    paths: list[str] = []
    monkeypatch.setattr(
        "resources.lake.os.fsync", lambda fd: paths.append(os.readlink(f"/proc/self/fd/{fd}"))
    )
    return paths


def test_a_written_file_is_on_disk_with_the_folders_that_lead_to_it(
    lake: Lake, synced: list[str]
) -> None:
    size = lake.write("p/_stream/1/log.parquet", ROW)
    assert size == Path(lake.root, "p/_stream/1/log.parquet").stat().st_size
    above = ["p/_stream/1/log.parquet", "p/_stream/1", "p/_stream", "p"]
    assert synced == [*(f"{lake.root}/{path}" for path in above), lake.root]


def test_what_spark_left_is_on_disk_before_it_is_named(lake: Lake, synced: list[str]) -> None:
    lake.write("t/_attempts/7/part-0.parquet", ROW)
    lake.write("t/_attempts/7/part-1.parquet", ROW.slice(0, 0))
    Path(lake.root, "t/_attempts/7/_SUCCESS").touch()
    synced.clear()
    assert [w.path for w in keep_written(lake, "t/_attempts/7")] == ["t/_attempts/7/part-0.parquet"]
    assert synced[0] == f"{lake.root}/t/_attempts/7/part-0.parquet"
    assert f"{lake.root}/t/_attempts/7" in synced


def test_a_version_is_on_disk_before_it_is_recorded(lake: Lake, synced: list[str]) -> None:
    lake.write("t/_attempts/1/a b.parquet", ROW)
    delta = Delta(lake)
    delta.create("t", ["t/_attempts/1/a b.parquet"], ROW.schema, stamp="s", key="id")
    synced.clear()
    delta.settle("t", after=-1, upto=0)
    log = f"{lake.root}/t/_delta_log"
    assert {f"{lake.root}/t/_attempts/1/a b.parquet", f"{log}/{0:020}.json", log} <= set(synced)


def test_an_empty_folder_goes_with_its_last_file(lake: Lake) -> None:
    lake.write("a/1/x.parquet", ROW)
    lake.write("a/1/y.parquet", ROW)
    lake.delete("a/1/x.parquet")
    lake.delete("a/1/x.parquet")
    assert lake.list("a") == ["a/1/y.parquet"]
    lake.delete("a/1/y.parquet")
    assert not Path(lake.root, "a/1").exists() and lake.list("a") == [] == lake.list("none")


def test_the_probes_pass_and_leave_nothing(lake: Lake) -> None:
    assert "delete" in probe_arrow(lake) and "put if absent" in probe_delta(lake)
    assert list(Path(lake.root).iterdir()) == []


def test_a_probe_that_fails_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for probe in (probe_arrow, probe_delta):
        with pytest.raises(LakeRefused, match=r"; check TIDEGATE_LAKE$") as refused:
            probe(Lake(str(tmp_path / "file")))
        assert "\n" not in str(refused.value)


def test_one_value_feeds_all_three_and_shows_no_key() -> None:
    settings = load_settings(S3)
    assert settings.lake == "s3://bucket/some/prefix"
    store = object_store(settings)
    assert store is not None
    conf, options = store.spark_conf(), store.delta_options()
    assert conf["spark.hadoop.fs.s3a.endpoint"] == options["AWS_ENDPOINT_URL"]
    assert options["AWS_SECRET_ACCESS_KEY"] == "hunter2"
    lake = Lake(settings.lake, store)
    assert lake.uri("t") == "s3a://bucket/some/prefix/t"
    again = pickle.loads(pickle.dumps(lake))
    assert again.uri("t") == lake.uri("t") and again.delta_options() == options
    assert "hunter2" not in f"{settings!r} {store!r} {lake!r} {conf}"
    assert load_settings(settings.child_environ()).s3_secret_key == SecretStr("hunter2")
    bare = object_store(replace(settings, s3_access_key=None, s3_secret_key=None))
    assert bare is not None and bare.variables() == {}
    assert "spark.hadoop.fs.s3a.aws.credentials.provider" not in bare.spark_conf()
    assert object_store(load_settings({"TIDEGATE_LAKE": "file:///tmp/x"})) is None


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"TIDEGATE_S3_SECRET_KEY": ""}, "TIDEGATE_S3_SECRET_KEY"),
        ({"TIDEGATE_S3_ACCESS_KEY": ""}, "TIDEGATE_S3_ACCESS_KEY"),
        ({"TIDEGATE_S3_ALLOW_HTTP": ""}, "TIDEGATE_S3_ENDPOINT"),
        ({"TIDEGATE_S3_ALLOW_HTTP": "yes"}, "TIDEGATE_S3_ALLOW_HTTP"),
        ({"TIDEGATE_S3_ENDPOINT": "http://me:hunter2@host"}, "TIDEGATE_S3_ENDPOINT"),
        ({"TIDEGATE_LAKE": "gs://bucket"}, "TIDEGATE_LAKE"),
        ({"TIDEGATE_LAKE": "s3:///"}, "TIDEGATE_LAKE"),
    ],
)
def test_half_a_store_is_refused_by_name(changed: dict[str, str], named: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load_settings({**S3, **changed})
    assert str(refused.value).startswith(named + " ") and "hunter2" not in str(refused.value)
