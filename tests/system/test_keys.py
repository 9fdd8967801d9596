"""Keys of many types, both backfills, a death mid-split, keys that move across splits: one lake."""

import random
import signal
import threading
from dataclasses import dataclass, field

import psycopg
import pytest

from orchestration.deployment import open_deployment
from orchestration.partial_reading import held_partial
from tests.support.driver import NOTE, Job
from tests.support.judge import Rows, lake_rows, require_equal, require_no_orphans, source_rows
from tests.support.pipeline import PIPELINE, TestPipeline
from tests.system.conftest import Launch, MakePipeline

ROWS = 600
SMALL = "snapshot.batch_size = '40', vnode_count = '4', backfill.num_rows_per_split = '150'"


@dataclass(frozen=True)
class Keyed:
    """`columns` and `values` (of a number i) of the key; two other columns are the same in all."""

    columns: str
    values: str
    options: str = "backfill.parallelism = '2'"

    @property
    def names(self) -> str:
        return ", ".join(column.split()[0] for column in self.columns.split(", "))


WORDS = "(ARRAY['a', 'B', 'ä', '''', '\\', '%', ' ', '😀'])[1 + i % 8] || i"
TABLES = {
    # First, so that the deaths fall into it.
    "single": Keyed('a int, b text COLLATE "C"', f"i % 7, {WORDS}", "backfill.parallelism = '0'"),
    "pairs": Keyed("a int, b text", f"i % 7, {WORDS}"),
    "words": Keyed("a text", WORDS),
    "moments": Keyed("a timestamptz", "timestamptz '2024-01-01' + i * interval '1.000001 s'"),
    "amounts": Keyed(
        "a date, b numeric(12,3), c bool",
        "date '0044-03-15 BC' + i % 9, i / 7.0, i % 2 = 0",
        "backfill.parallelism = '3', backfill.split_pk_column_index = '1'",
    ),
    "sparse": Keyed("a bigint", "i::bigint * i * i * 1000 - 40000"),
    "evens": Keyed("a int", "i", "backfill.parallelism = '1', snapshot.filter = 'a % 2 = 0'"),
    "new_only": Keyed("a int", "i", "snapshot = 'false'"),
}
PARTIAL = ("evens", "new_only")


@dataclass
class KeyWriter:
    """Changes rows of all tables, keys included, until it is stopped."""

    dsn: str
    seed: int
    _over: threading.Event = field(default_factory=threading.Event)
    _error: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changes = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        if self._error:
            raise self._error[0]
        assert self.changes > 20

    def _run(self) -> None:
        try:
            chance, fresh = random.Random(self.seed), self.seed * 100_000
            with psycopg.connect(self.dsn, autocommit=True) as connection:
                while not self._over.wait(0.005):
                    name, number = chance.choice(list(TABLES)), chance.randint(1, ROWS)
                    fresh += 1
                    text = statement(name, chance.randrange(4)).encode()
                    connection.execute(text, {"n": number, "fresh": fresh})
                    self.changes += 1
        except BaseException as error:
            self._error.append(error)


def statement(name: str, move: int) -> str:
    table = TABLES[name]
    series = "FROM generate_series(%(fresh)s, %(fresh)s) AS i"
    values = table.values.replace("%", "%%")
    match move:
        case 0:
            return f"INSERT INTO {name} SELECT {values}, i, 'new' {series}"
        case 1:
            return f"UPDATE {name} SET note = note || '.' WHERE n = %(n)s"
        case 2:
            # The key of a number that nobody has: mostly in another split.
            other = f"(SELECT {values} {series})"
            return f"UPDATE {name} SET ({table.names}) = {other} WHERE n = %(n)s"
        case _:
            return f"DELETE FROM {name} WHERE n = %(n)s"


def make_tables(pipeline: TestPipeline) -> None:
    path = pipeline.settings.pipelines / f"{PIPELINE}.sql"
    text = path.read_text()
    with pipeline.source() as source:
        for name, table in TABLES.items():
            source.execute(
                f"CREATE TABLE {name} ({table.columns}, n int NOT NULL, note text, "
                f"PRIMARY KEY ({table.names}))".encode()
            )
            source.execute(
                f"INSERT INTO {name} SELECT {table.values}, i, 'row ' || i "
                f"FROM generate_series(1, {ROWS}) AS i".encode()
            )
            source.execute(f"ANALYZE {name}".encode())
            if name in PARTIAL:
                # A before image of a row that was left out of the snapshot must not be believed.
                source.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL".encode())
            text += (
                f"CREATE TABLE {name} (*) FROM shop TABLE 'public.{name}' "
                f"WITH ({table.options}, {SMALL});\n"
            )
    path.write_text(text)


@pytest.mark.system
@pytest.mark.unsettled  # its writer makes a key beyond bigint
def test_any_key_comes_whole(make_pipeline: MakePipeline, launch: Launch) -> None:
    views = {
        f"{t}_counted": f"SELECT a, count(*) AS n, sum(n) AS total FROM {t} GROUP BY a"
        for t in PARTIAL
    }
    pipeline = make_pipeline(tables=(), views={}, lease_seconds=5.0)
    make_tables(pipeline)
    add_views(pipeline, views)
    tables = tuple(TABLES)

    writer = KeyWriter(pipeline.dsn, 1)
    dying = Job(
        pipeline.settings,
        "first",
        ("stream", "table"),
        tables=tables,
        views=(),
        failpoint="backfill.after_commit",
    )
    child = launch(dying)
    assert child.wait() == -signal.SIGKILL, child.output
    (pipeline.home / NOTE).unlink()
    pipeline.expire_leases()
    writer.stop()

    # What one reader has passed is the source, exactly, as far as it came.
    child = launch(Job(pipeline.settings, "flush", ("stream", "flush"), tables=(), views=()))
    assert child.wait() == 0, child.output
    read = part_of(pipeline, "single")
    whole = source_rows(pipeline, "single")
    assert 0 < len(read) < len(whole)
    last = max(read, key=in_bytes)
    assert read == {k: row for k, row in whole.items() if in_bytes(k) <= in_bytes(last)}
    assert pipeline.states()["single"][0] == "Backfilling"

    writer = KeyWriter(pipeline.dsn, 2)
    run = launch(
        Job(
            pipeline.settings,
            "second",
            ("stream", "table", "view", "settle", "rest", "collect"),
            tables=tables,
            views=tuple(views),
        )
    )
    run.await_file(run.file("settled"))
    writer.stop()
    epoch = run.finish()
    whole_tables = [name for name in TABLES if name not in PARTIAL]
    require_equal(pipeline, epoch, tables=whole_tables, views=())
    require_no_orphans(pipeline)
    require_parts(pipeline, epoch)
    splits = dict(
        pipeline.asked(
            "SELECT r.name, count(*) FROM splits s JOIN relations r ON r.id = s.relation GROUP BY 1"
        )
    )
    assert splits["single"] == 1
    assert all(int(str(splits[name])) >= 4 for name in whole_tables if name != "single"), splits


def add_views(pipeline: TestPipeline, views: dict[str, str]) -> None:
    path = pipeline.settings.pipelines / f"{PIPELINE}.sql"
    text = "".join(f"CREATE MATERIALIZED VIEW {n} AS {query};\n" for n, query in views.items())
    path.write_text(path.read_text() + text)


def part_of(pipeline: TestPipeline, table: str) -> Rows:
    with (
        open_deployment(pipeline.settings) as deployment,
        held_partial(deployment, table) as held,
    ):
        rows = held.frames[table].toArrow().to_pylist()
    return {(row["a"], row["b"]): row for row in rows}


def in_bytes(key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in key)


def require_parts(pipeline: TestPipeline, epoch: int) -> None:
    """Rows left out of the snapshot come with their next change, and views agree with the table."""
    for name in PARTIAL:
        rows, source = lake_rows(pipeline, name, epoch), source_rows(pipeline, name)
        assert all(source.get(key) == row for key, row in rows.items())
        missing = {key: source[key] for key in source.keys() - rows.keys()}
        untouched = [row for row in missing.values() if row["note"] == f"row {row['n']}"]
        assert len(untouched) == len(missing) > 50, "what was changed has come"
        if name == "evens":
            assert all(key[0] % 2 for key in missing)
            assert sum(1 for key in rows if key[0] % 2 == 0) > ROWS / 4
        counted = lake_rows(pipeline, f"{name}_counted", epoch)
        assert counted == {
            key: {"a": key[0], "n": 1, "total": row["n"]} for key, row in rows.items()
        }
