"""`tidegate bench backfill`: a table of seven columns into Delta, beside three others in one run.

    drain        COPY of the whole table, binary, thrown away: what the source can give to one
                 reader
    jdbc         Spark's JDBC source with as many partitions as we have splits, written to Delta
    connectorx   connectorx with as many partitions as we have readers, written by delta-rs
    ours         backfill under an open slot, until the table is live, and the first fold to Delta

Each writes the same rows on the same machine; whoever is timed has it for itself. Spark is warm for
both that use it. At the end our table is counted and summed up against the source.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from orchestration import maintenance, reading
from orchestration.deployment import CONTROL_DATABASE, Deployment, open_deployment
from orchestration.local_run import LocalRun
from resources.embedded.jar_table import POSTGRES_JDBC
from resources.embedded.jars import ensure_jars, needed_jars
from resources.embedded.java import find_java
from resources.settings import Settings

READERS, SPLITS = 2, 10
PIPELINE = """
CREATE SOURCE bench WITH (connector = 'postgres-cdc', hostname = SECRET embedded_host,
  port = SECRET embedded_port, username = 'postgres', password = SECRET embedded_password,
  database.name = 'bench', slot.name = 'tidegate_bench');
CREATE TABLE orders (*) FROM bench TABLE 'public.orders'
  WITH (backfill.parallelism = '{readers}', backfill.num_rows_per_split = '{rows_per_split}');
"""
TARGETS = {"jdbc": 1.8, "connectorx": 1.0, "drain": 0.55}
"""Our speed must be at least so many times theirs."""
SUMS = "count(*), sum(id), sum(amount), sum(quantity), count(region), sum(day - date '2026-01-01')"


@dataclass
class Figures:
    rows: int
    seconds: dict[str, float] = field(default_factory=dict)
    ours: dict[str, float] = field(default_factory=dict)
    """Where our time went: pages (first to last commit), live, fold."""
    load: dict[str, float] = field(default_factory=dict)
    pages: int = 0

    def time(self, name: str, work: Callable[[], None]) -> None:
        self.load[name] = os.getloadavg()[0]
        started = time.monotonic()
        work()
        self.seconds[name] = time.monotonic() - started

    def ratio(self, peer: str) -> float:
        return self.seconds[peer] / self.seconds["ours"]

    def as_json(self) -> dict[str, object]:
        return {
            "rows": self.rows,
            "readers": READERS,
            "splits": SPLITS,
            "pages": self.pages,
            "seconds": {k: round(v, 2) for k, v in self.seconds.items()},
            "ours": {k: round(v, 2) for k, v in self.ours.items()},
            "load_before": {k: round(v, 1) for k, v in self.load.items()},
            "ratios": {peer: round(self.ratio(peer), 2) for peer in TARGETS},
        }


def bench_backfill(settings: Settings, *, rows: int, json_path: str | None) -> int:
    console = Console()
    figures = Figures(rows)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as made:
        home = Path(made)
        home.chmod(0o755)
        (home / "pipelines").mkdir()
        text = PIPELINE.format(readers=READERS, rows_per_split=-(-rows // SPLITS))
        (home / "pipelines" / "bench.sql").write_text(text)
        jars = ensure_jars(settings, find_java(settings), (*needed_jars(settings), *POSTGRES_JDBC))
        ours = replace(
            settings,
            home=home,
            lake=str(home / "lake"),
            pipelines=home / "pipelines",
            control_dsn=None,
            fold_interval_seconds=1e9,
            spark_conf={"spark.driver.extraClassPath": ":".join(map(str, jars))},
        )
        with open_deployment(ours) as deployment:
            _measure(deployment, figures, console)
    _report(console, figures)
    if json_path:
        Path(json_path).write_text(json.dumps(figures.as_json(), indent=2) + "\n")
    return 0


def _measure(deployment: Deployment, figures: Figures, console: Console) -> None:
    assert deployment.embedded is not None
    dsn = deployment.embedded.ensure_database("bench").reveal()
    console.print(f"making {figures.rows:,} rows …", style="dim")
    with psycopg.connect(dsn, autocommit=True) as source:
        _make_rows(source, figures.rows)
    console.print("starting Spark …", style="dim")
    spark = deployment.spark()
    peers = deployment.lake.uri("peers")
    Path(peers).mkdir(parents=True, exist_ok=True)
    _jdbc(spark, deployment, dsn, f"{peers}/warm", rows=10_000)
    works: dict[str, Callable[[], None]] = {
        "drain": lambda: _drain(dsn),
        "jdbc": lambda: _jdbc(spark, deployment, dsn, f"{peers}/jdbc", rows=figures.rows),
        "connectorx": lambda: _connectorx(dsn, f"{peers}/connectorx"),
        "ours": lambda: _ours(deployment, figures, console),
    }
    for name, work in works.items():
        figures.time(name, work)
        speed = figures.rows / figures.seconds[name]
        console.print(f"  {name}: {figures.seconds[name]:.1f} s, {speed:,.0f} rows/s", style="dim")
    with psycopg.connect(dsn) as source:
        _judge(deployment, source)


def _make_rows(source: psycopg.Connection[tuple[object, ...]], rows: int) -> None:
    source.execute(
        b"CREATE TABLE orders (id bigint PRIMARY KEY, region text, amount numeric(12,2), "
        b"quantity int, paid bool, day date, at timestamptz)"
    )
    source.execute(
        "INSERT INTO orders SELECT i, 'region ' || i % 1000, (i % 9973) + 0.25, i % 7, i % 2 = 0, "
        f"date '2026-01-01' + (i % 300)::int, now() FROM generate_series(1, {rows}) AS i".encode()
    )
    source.execute(b"VACUUM ANALYZE orders")
    source.execute(b"CHECKPOINT")
    # Into the cache, for whoever comes first.
    source.execute(b"SELECT count(note) FROM (SELECT orders::text AS note FROM orders) AS o")


def _drain(dsn: str) -> None:
    with (
        psycopg.connect(dsn) as source,
        source.cursor().copy("COPY orders TO STDOUT (FORMAT binary)") as copy,
    ):
        while copy.read():
            pass


def _jdbc(spark: SparkSession, deployment: Deployment, dsn: str, path: str, *, rows: int) -> None:
    server = deployment.embedded
    assert server is not None
    frame = (
        spark.read.format("jdbc")
        .option("url", f"jdbc:postgresql://{server.host}:{server.port}/bench")
        .option("driver", "org.postgresql.Driver")
        .option("user", server.user)
        .option("password", server.password.reveal())
        .option("dbtable", f"(SELECT * FROM orders WHERE id <= {rows}) AS o")
        .option("partitionColumn", "id")
        .option("lowerBound", 1)
        .option("upperBound", rows + 1)
        .option("numPartitions", SPLITS)
        .option("fetchsize", 10_000)
        .load()
    )
    frame.write.format("delta").save(path)


def _connectorx(dsn: str, path: str) -> None:
    import connectorx

    found = psycopg.conninfo.conninfo_to_dict(dsn)
    url = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**found)
    table = connectorx.read_sql(
        url,
        "SELECT * FROM orders",
        partition_on="id",
        partition_num=READERS,
        return_type="arrow",
    )
    write_deltalake(path, table)


def _ours(deployment: Deployment, figures: Figures, console: Console) -> None:
    started = time.monotonic()
    with LocalRun(deployment, "bench", tell=lambda _: None) as local:
        local.wait_settled(on_progress=lambda _: None)
        live = time.monotonic()
        while not maintenance.fold(deployment, "bench", owner="bench"):
            time.sleep(0.05)
        folded = time.monotonic()
    figures.ours |= {"live": live - started, "fold": folded - live}
    with psycopg.connect(deployment.embedded.dsn(CONTROL_DATABASE).reveal()) as store:
        query = "SELECT extract(epoch FROM max(committed_at) - min(committed_at)) FROM epochs "
        found = store.execute((query + "WHERE graph = 'bench/orders'").encode()).fetchone()
        assert found is not None
        pages = store.execute(
            b"SELECT count(*), sum(s.seconds) FROM files f, (SELECT sum(seconds) AS seconds "
            b"FROM splits) s WHERE f.kind = 'snapshot' AND f.relation = "
            b"(SELECT id FROM relations WHERE name = 'orders')"
        ).fetchone()
        assert pages is not None
        figures.pages = int(str(pages[0]))
        figures.ours["in the tasks, summed"] = float(str(pages[1])) / max(figures.pages, 1)
        figures.ours["pages, from the first commit to the last"] = float(str(found[0]))


def _judge(deployment: Deployment, source: psycopg.Connection[tuple[object, ...]]) -> None:
    """A figure of a wrong answer is worth nothing."""
    want = source.execute(f"SELECT {SUMS} FROM orders".encode()).fetchone()
    with reading.held(deployment, ["bench.orders"]) as held:
        held.frames["bench.orders"].createOrReplaceTempView("bench_orders")
        sums = SUMS.replace("day - date '2026-01-01'", "datediff(day, date '2026-01-01')")
        got = deployment.spark().sql(f"SELECT {sums} FROM bench_orders").collect()[0]
    assert tuple(got) == want, (tuple(got), want)


def _report(console: Console, figures: Figures) -> None:
    title = f"{figures.rows:,} rows of 7 columns, {READERS} readers, {SPLITS} splits"
    table = Table(title=title)
    for column in ("", "seconds", "rows/s", "our speed to theirs", "asked for", "load before"):
        table.add_column(column, justify="left" if not column else "right")
    for name, seconds in figures.seconds.items():
        peer = name in TARGETS
        table.add_row(
            name,
            f"{seconds:.1f}",
            f"{figures.rows / seconds:,.0f}",
            f"{figures.ratio(name):.2f}×" if peer else "",
            f"≥ {TARGETS[name]}×" if peer else "",
            f"{figures.load[name]:.1f}",
        )
    console.print(table)
    parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in figures.ours.items())
    console.print(f"ours: {figures.pages} pages, {parts}", style="dim")
