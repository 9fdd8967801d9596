"""`tidegate bench tick`: 10 k changes through a table and a view on it, beside Delta MERGE.

Two tables of the same rows, one whose source sends before images (REPLICA IDENTITY FULL) and one
whose before images must be looked up. Per round and table: commit 10 k changes at the source, then

    tick    from asking for a flush to its commit: slot, decoding, log, view, commit
    merge   Delta MERGE of the same changes into a Delta table of the same rows

in turn, in one process, on one Spark. The view's cost is on our side only.
"""

import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from orchestration import maintenance, reading, running
from orchestration.deployment import Deployment, open_deployment
from orchestration.local_run import LocalRun
from resources.settings import Settings

CHANGES = 10_000
WARM_UP, ROUNDS = 2, 5
COLUMNS = "id, region, amount, quantity, paid, day, at"
PIPELINE = """
CREATE SOURCE bench WITH (connector = 'postgres-cdc', hostname = SECRET embedded_host,
  port = SECRET embedded_port, username = 'postgres', password = SECRET embedded_password,
  database.name = 'bench', slot.name = 'tidegate_bench');
"""
RELATIONS = """
CREATE TABLE {name} (*) FROM bench TABLE 'public.{name}';
CREATE MATERIALIZED VIEW {name}_by_region AS
  SELECT region, count(*) AS orders, sum(amount) AS amount FROM {name} GROUP BY region;
"""


@dataclass
class Case:
    name: str
    title: str
    identity: str
    ticks: list[float] = field(default_factory=list)
    merges: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return statistics.median(self.merges) / statistics.median(self.ticks)


def bench_tick(settings: Settings, *, rows: int, json_path: str | None) -> int:
    console = Console()
    cases = [
        Case("with_images", "with before images", "FULL"),
        Case("with_lookups", "with look-ups", "DEFAULT"),
    ]
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as made:
        home = Path(made)
        home.chmod(0o755)
        (home / "pipelines").mkdir()
        text = PIPELINE + "".join(RELATIONS.format(name=c.name) for c in cases)
        (home / "pipelines" / "bench.sql").write_text(text)
        ours = replace(
            settings,
            home=home,
            lake=str(home / "lake"),
            pipelines=home / "pipelines",
            control_dsn=None,
            fold_interval_seconds=1e9,
        )
        with open_deployment(ours) as deployment:
            _measure(deployment, cases, rows, console)
    _report(console, cases, rows)
    if json_path:
        Path(json_path).write_text(json.dumps(_figures(cases, rows), indent=2) + "\n")
    return 0


def _measure(deployment: Deployment, cases: list[Case], rows: int, console: Console) -> None:
    assert deployment.embedded is not None
    dsn = deployment.embedded.ensure_database("bench").reveal()
    console.print(f"making {rows:,} rows, twice …", style="dim")
    with psycopg.connect(dsn, autocommit=True) as source:
        for case in cases:
            _make_rows(source, case, rows)
    console.print("starting Spark …", style="dim")
    spark = deployment.spark()
    with LocalRun(deployment, "bench", tell=console.print) as local:
        console.print("filling tables and views …", style="dim")
        local.wait_settled(on_progress=lambda _: None)
        maintenance.fold(deployment, "bench", owner="bench")
        peers = {case.name: _make_peer(deployment, case) for case in cases}
        with psycopg.connect(dsn, autocommit=True) as source:
            for round_ in range(WARM_UP + ROUNDS):
                for case in cases:
                    took = _tick(deployment, source, case, rows, round_)
                    merged = _merge(spark, source, case, peers[case.name], deployment, round_)
                    if round_ >= WARM_UP:
                        case.ticks.append(took)
                        case.merges.append(merged)
                    console.print(
                        f"  {case.title}: tick {took:.2f} s, merge {merged:.2f} s", style="dim"
                    )
            for case in cases:
                _judge(deployment, source, case)


def _make_rows(source: psycopg.Connection[tuple[object, ...]], case: Case, rows: int) -> None:
    source.execute(
        f"CREATE TABLE {case.name} (id bigint PRIMARY KEY, region int, amount numeric(12,2), "
        "quantity int, paid bool, day date, at timestamptz)".encode()
    )
    source.execute(
        f"INSERT INTO {case.name} SELECT i, i % 1000, (i % 9973) + 0.25, i % 7, i % 2 = 0, "
        f"date '2026-01-01' + (i % 300)::int, now() FROM generate_series(1, {rows}) AS i".encode()
    )
    source.execute(f"ALTER TABLE {case.name} REPLICA IDENTITY {case.identity}".encode())
    source.execute(f"ANALYZE {case.name}".encode())
    source.execute(f"CREATE UNLOGGED TABLE {case.name}_changed (id bigint PRIMARY KEY)".encode())


def _make_peer(deployment: Deployment, case: Case) -> str:
    path = deployment.lake.uri(f"peer/{case.name}")
    name = f"bench.{case.name}"
    with reading.held(deployment, [name]) as held:
        rows = held.frames[name].repartitionByRange(4, "id").sortWithinPartitions("id")
        rows.write.format("delta").save(path)
    return path


def _tick(
    deployment: Deployment,
    source: psycopg.Connection[tuple[object, ...]],
    case: Case,
    rows: int,
    round_: int,
) -> float:
    """Change 8 k rows, insert 1 k, delete 1 k, spread over the table; time the flush."""
    step = rows // (CHANGES * 9 // 10)
    moved = f"SELECT 1 + (i * {step} + {round_ * 7}) % {rows} FROM generate_series(1, 9000) AS i"
    with source.transaction():
        source.execute(f"TRUNCATE {case.name}_changed".encode())
        source.execute(f"INSERT INTO {case.name}_changed {moved} ON CONFLICT DO NOTHING".encode())
        source.execute(
            f"UPDATE {case.name} SET amount = amount + 1, region = (region + 1) % 1000 WHERE id IN "
            f"(SELECT id FROM {case.name}_changed ORDER BY id LIMIT 8000)".encode()
        )
        source.execute(
            f"DELETE FROM {case.name} WHERE id IN "
            f"(SELECT id FROM {case.name}_changed ORDER BY id OFFSET 8000)".encode()
        )
        first = rows + round_ * 1000
        source.execute(
            f"INSERT INTO {case.name} SELECT i, i % 1000, 1.25, 1, true, '2026-02-02', now() "
            f"FROM generate_series({first + 1}, {first + 1000}) AS i".encode()
        )
        source.execute(
            f"INSERT INTO {case.name}_changed SELECT i FROM "
            f"generate_series({first + 1}, {first + 1000}) AS i".encode()
        )
    started = time.monotonic()
    running.flush(deployment, "bench")
    return time.monotonic() - started


def _merge(
    spark: SparkSession,
    source: psycopg.Connection[tuple[object, ...]],
    case: Case,
    peer: str,
    deployment: Deployment,
    round_: int,
) -> float:
    """MERGE the same changes, handed over as a Parquet file, into the peer's Delta table."""
    import adbc_driver_postgresql.dbapi as adbc
    import pyarrow as pa

    assert deployment.embedded is not None
    dsn = deployment.embedded.dsn("bench").reveal()
    with adbc.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(
            f"SELECT c.id AS changed, t.id, t.region, t.amount::text AS amount, t.quantity, "
            f"t.paid, t.day, t.at FROM {case.name}_changed c LEFT JOIN {case.name} t USING (id)"
        )
        found = cursor.fetch_arrow_table()
    assert isinstance(found, pa.Table)
    path = f"peer/{case.name}-changes/{round_}.parquet"
    deployment.lake.write(path, found)
    names = COLUMNS.split(", ")
    changes = spark.read.parquet(deployment.lake.uri(path))
    changes = changes.withColumn("amount", changes["amount"].cast("decimal(12,2)"))
    changes.createOrReplaceTempView("bench_changes")
    sets = ", ".join(f"{n} = c.{n}" for n in names)
    values = ", ".join(f"c.{n}" for n in names)
    started = time.monotonic()
    spark.sql(
        f"MERGE INTO delta.`{peer}` AS t USING bench_changes AS c ON t.id = c.changed "
        "WHEN MATCHED AND c.id IS NULL THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND c.id IS NOT NULL THEN INSERT ({COLUMNS}) VALUES ({values})"
    ).collect()
    return time.monotonic() - started


def _judge(
    deployment: Deployment, source: psycopg.Connection[tuple[object, ...]], case: Case
) -> None:
    """A figure of a wrong answer is worth nothing: the view must equal its recompute."""
    running.flush(deployment, "bench")
    got = reading.rows(deployment, f"bench.{case.name}_by_region").to_pylist()
    want = source.execute(
        f"SELECT region, count(*), sum(amount) FROM {case.name} GROUP BY region".encode()
    ).fetchall()
    assert sorted(tuple(r.values()) for r in got) == sorted(want), case.name


def _figures(cases: list[Case], rows: int) -> dict[str, object]:
    return {
        "rows": rows,
        "changes": CHANGES,
        "cases": {
            c.name: {
                "tick_s": [round(t, 3) for t in c.ticks],
                "merge_s": [round(t, 3) for t in c.merges],
                "merge_over_tick": round(c.ratio, 2),
            }
            for c in cases
        },
    }


def _report(console: Console, cases: list[Case], rows: int) -> None:
    table = Table(title=f"{CHANGES:,} changes per tick, {rows:,} rows; medians of {ROUNDS}")
    for column in ("", "table + view", "Delta MERGE, table only", "ratio"):
        table.add_column(column, justify="left" if not column else "right")
    for c in cases:
        table.add_row(
            c.title,
            f"{statistics.median(c.ticks):.2f} s",
            f"{statistics.median(c.merges):.2f} s",
            f"{c.ratio:.1f}×",
        )
    console.print(table)
