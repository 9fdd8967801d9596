"""What Dagster loads, without a connection; and the names it sees."""

import subprocess
import sys
import time
from pathlib import Path

import dagster as dg
import pytest

from ops.common.errors import Unsupported
from ops.planner.parse import parse_pipeline
from orchestration.definitions import build_definitions
from orchestration.deployment import read_pipelines
from orchestration.keys import run_of_owner, run_owner
from orchestration.partitions import parse_vnodes, partition_of, vnode_partitions

ROOT = Path(__file__).parents[2]
SOURCE = """CREATE SOURCE s WITH (connector = 'postgres-cdc', hostname = 'nowhere.invalid',
  username = 'u', password = SECRET p, database.name = 'd', slot.name = 'x');"""


def many_tables(count: int) -> str:
    tables = (f"CREATE TABLE t{i} (*) FROM s TABLE 'public.t{i}';" for i in range(count))
    views = (
        f"CREATE MATERIALIZED VIEW v{i} AS SELECT a, count(*) AS n FROM t{i} GROUP BY a;"
        for i in range(count)
    )
    return "\n".join([SOURCE, *tables, *views])


def test_the_four_assets_and_their_arrows(tmp_path: Path) -> None:
    (tmp_path / "p.sql").write_text(many_tables(1))
    graph = build_definitions(read_pipelines(tmp_path)).resolve_asset_graph()
    parents = {
        key.to_user_string(): {p.to_user_string() for p in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    }
    assert parents == {
        "p/t0/cdc_backfill": set(),
        "p/t0": {"p/t0/cdc_backfill"},
        "p/v0/snapshot_backfill": {"p/t0"},
        "p/v0": {"p/v0/snapshot_backfill"},
    }
    assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {"p"}
    backfill = graph.get(dg.AssetKey(["p", "t0", "cdc_backfill"]))
    assert backfill.partitions_def == vnode_partitions(16)
    assert backfill.backfill_policy == dg.BackfillPolicy.single_run()
    table = graph.get(dg.AssetKey(["p", "t0"]))
    assert {c.name for c in graph.asset_check_keys} == {"equals_source"}
    assert table.partitions_def is None and "CREATE TABLE t0" in (table.description or "")


def test_jobs_and_the_sensor(tmp_path: Path) -> None:
    (tmp_path / "p.sql").write_text(many_tables(1))
    definitions = build_definitions(read_pipelines(tmp_path))
    dg.Definitions.validate_loadable(definitions)
    stream = definitions.get_job_def("p__stream")
    assert stream.run_tags["tidegate/stream"] == "p"
    assert stream.run_tags["dagster/max_retries"] == "0", "only the sensor starts the next one"
    sensor = definitions.get_sensor_def("barriers")
    assert sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_loading_opens_nothing_and_starts_nothing(tmp_path: Path) -> None:
    """In a process where a connection, a child process or a Spark session is an error."""
    (tmp_path / "p.sql").write_text(many_tables(2))
    script = f"""
import os, socket, subprocess, sys
os.environ.update(TIDEGATE_PIPELINES={str(tmp_path)!r}, TIDEGATE_HOME={str(tmp_path / "home")!r})
import dagster, psycopg
from pyspark.sql import SparkSession
def refuse(*_, **__): raise AssertionError("loading must not do this")
socket.socket.connect = psycopg.connect = subprocess.Popen.__init__ = refuse
SparkSession.Builder.getOrCreate = refuse
from orchestration.definitions import defs
defs.resolve_asset_graph()
assert not os.path.exists({str(tmp_path / "home")!r})
print("loaded")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "loaded", done.stderr


def test_many_tables_load_fast() -> None:
    plan = parse_pipeline("p", many_tables(50))
    begun = time.process_time()
    build_definitions({"p": plan}).resolve_asset_graph()
    assert time.process_time() - begun < 5


def test_a_broken_file_is_named_with_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "p.sql").write_text(SOURCE + "\nDROP TABLE t;\n")
    with pytest.raises(Unsupported, match=r"p\.sql: line 3, column 1: DROP"):
        read_pipelines(tmp_path)


def test_no_pipeline_is_no_error(tmp_path: Path) -> None:
    dg.Definitions.validate_loadable(build_definitions(read_pipelines(tmp_path)))


def test_partition_names_sort_as_vnodes_do() -> None:
    for count in (1, 2, 16, 100, 101):
        names = list(vnode_partitions(count).get_partition_keys())
        assert names == sorted(names) and parse_vnodes(names) == list(range(count))
    assert partition_of(3, 16) == "03"


def test_owner_names_lead_back_to_the_run() -> None:
    assert run_of_owner(run_owner("abc")) == "abc"
    assert run_of_owner("host:12") is None and run_of_owner(None) is None
