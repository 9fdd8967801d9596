"""A table with a column of most types is filled while it is written to; the lake is the source."""

import random

import psycopg
import pytest

from tests.support.driver import Job
from tests.support.every_type import MADE_FROM, OTHER, PLAIN, random_values
from tests.support.judge import require_equal, require_no_orphans
from tests.support.pipeline import TABLE, VNODES, TestPipeline
from tests.support.writer import LiveWriter
from tests.system.conftest import Launch, MakePipeline

ROWS = 400
TABLES = {
    "plain": dict(PLAIN),
    "everything": {**PLAIN, **{t: v for t, v in OTHER.items() if t != "numeric(40,2)"}},
}
"""The first alone would be streamed in binary; with the second there, both come as text."""


@pytest.mark.parametrize("together", [("plain",), ("plain", "everything")])
def test_every_type_arrives(
    together: tuple[str, ...], make_pipeline: MakePipeline, launch: Launch
) -> None:
    pipeline = make_pipeline(rows=ROWS, views={})
    for table in together:
        _make(pipeline, table)
    steps = ("stream", "table", "settle", "rest", "collect")
    tables = ("orders", *together)
    run = launch(Job(pipeline.settings, "run", steps, tables=tables, views=()))
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        turns = 0
        while not run.file("settled").exists() or turns < 10:
            assert run.process.is_alive(), run.output
            for table in together:
                _change(pipeline, table, turns)
            turns += 1
        writer.stop()
    epoch = run.finish()
    assert all(pipeline.states()[table] == ("Live", None) for table in tables)
    assert require_equal(pipeline, epoch, tables=tables, views=()) > len(tables) * ROWS / 2
    require_no_orphans(pipeline)


def _make(pipeline: TestPipeline, table: str) -> None:
    types = TABLES[table]
    columns = ", ".join(f"c{i} {name}" for i, name in enumerate(types))
    more = random_values(random.Random(3))
    # Not the large text: an update that leaves it alone would not send it.
    small = {t: [v for v in values if "repeat" not in v] for t, values in types.items()}
    made = {t: [*values, *more.get(t, ())] for t, values in small.items()}
    with pipeline.source() as source:
        if source.execute("SELECT to_regtype('mood')").fetchone() == (None,):
            source.execute(MADE_FROM.encode())
        source.execute(f"CREATE TABLE {table} (id int8 PRIMARY KEY, {columns})".encode())
        for low in range(0, ROWS, 50):
            lines = [_line(made, n) for n in range(low, low + 50)]
            source.execute(f"INSERT INTO {table} VALUES {', '.join(lines)}".encode())
        if table == "everything":
            # Its rows are so wide that Postgres keeps parts of them apart.
            source.execute(f"ALTER TABLE {table} REPLICA IDENTITY FULL".encode())
    definitions = pipeline.settings.pipelines / "shop.sql"
    text = TABLE.format(name=table, parallelism=2, rows_per_split=100, page_rows=40, vnodes=VNODES)
    definitions.write_text(definitions.read_text() + text)


def _line(values: dict[str, list[str]], n: int) -> str:
    return f"({n}, {', '.join(v[n % len(v)] for v in values.values())})"


def _change(pipeline: TestPipeline, table: str, turn: int) -> None:
    """Insert rows, delete some, move a key, and exchange values between rows."""
    names = ", ".join(f"c{i}" for i in range(len(TABLES[table])))
    low = (turn * 37) % ROWS
    with psycopg.connect(pipeline.dsn) as source:
        for statement in (
            f"INSERT INTO {table} SELECT {ROWS + 10 * turn} + id % 10, {names} FROM {table} "
            f"WHERE id BETWEEN {low} AND {low + 9} ON CONFLICT DO NOTHING",
            f"DELETE FROM {table} WHERE id = {low + 11}",
            f"UPDATE {table} SET id = -{turn + 1} WHERE id = {low + 12}",
            f"UPDATE {table} AS t SET ({names}) = (SELECT {names} FROM {table} AS o "
            f"WHERE o.id = {low + 20}) WHERE id BETWEEN {low + 14} AND {low + 18} "
            f"AND EXISTS (SELECT FROM {table} AS o WHERE o.id = {low + 20})",
        ):
            source.execute(statement.encode())
