"""A table that meets what must not be guessed about stops by name; the others go on."""

import signal

import pytest

from tests.support.driver import Job
from tests.support.judge import (
    Rows,
    ask_source,
    lake_rows,
    require_equal,
    require_no_orphans,
    source_rows,
)
from tests.support.pipeline import REVENUE, TestPipeline
from tests.support.writer import LiveWriter
from tests.system.conftest import Launch, MakePipeline
from tests.system.test_takeover import stopped_at, until

ROWS = 300
LARGE = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) AS i)"
EVENTS = {
    "cut": ("TRUNCATE cut", "it was truncated at the source"),
    "large": ("UPDATE large SET quantity = 99 WHERE id = 7", "column note holds a large value"),
    "wider": (
        "ALTER TABLE wider ADD COLUMN extra int DEFAULT 5; UPDATE wider SET quantity = 99",
        "column extra was added",
    ),
}
VIEWS = {
    "per_cut": REVENUE.replace("orders GROUP", "cut GROUP"),
    "revenue": REVENUE,
}


def test_a_stopped_table_keeps_what_it_had_and_the_others_go_on(
    make_pipeline: MakePipeline, launch: Launch
) -> None:
    tables = (*EVENTS, "orders")
    pipeline = make_pipeline(rows=ROWS, tables=tables, views=VIEWS)
    with pipeline.source() as source:
        source.execute(f"UPDATE large SET note = {LARGE} WHERE id = 7".encode())
    before = {table: source_rows_before(pipeline, table) for table in EVENTS}
    steps = ("stream", "table", "view", "settle", "rest", "collect")
    run = launch(Job(pipeline.settings, "run", steps, tables=tables, views=tuple(VIEWS)))
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        run.await_file(run.file("settled"))
        cut = source_rows(pipeline, "per_cut")
        for table, (statement, why) in EVENTS.items():
            assert pipeline.states()[table][0] == "Live"
            with pipeline.source() as source:
                source.execute(statement.encode())
            until(lambda table=table: pipeline.states()[table][0] == "Stopped")  # type: ignore[misc]
            assert why in str(pipeline.states()[table][1])
        at_stop = writer.transactions
        until(lambda: writer.transactions > at_stop + 20)
        writer.stop()
    epoch = run.finish()
    assert pipeline.states()["orders"] == ("Live", None)
    assert pipeline.states()["revenue"] == pipeline.states()["per_cut"] == ("Done", None)
    require_equal(pipeline, epoch, tables=("orders",), views=("revenue",))
    for table in EVENTS:
        assert lake_rows(pipeline, table, epoch) == before[table]
    assert lake_rows(pipeline, "per_cut", epoch) == cut
    require_no_orphans(pipeline)


def source_rows_before(pipeline: TestPipeline, table: str) -> Rows:
    """Return a table's rows, when the control store does not know its key yet."""
    rows = ask_source(pipeline, f"SELECT * FROM {table}")
    return {(row["id"],): row for row in rows}


@pytest.mark.parametrize("name", ["backfill.before_plan_splits", "backfill.before_commit"])
def test_a_table_that_stops_while_it_is_read_never_goes_live(
    name: str, make_pipeline: MakePipeline, launch: Launch
) -> None:
    pipeline = make_pipeline(rows=ROWS, views={}, lease_seconds=60.0)
    stream = launch(Job(pipeline.settings, "stream", ("stream", "rest"), views=()))
    until(lambda: bool(pipeline.asked("SELECT FROM epochs")))
    reader = launch(
        Job(pipeline.settings, "reader", ("table",), views=(), failpoint=name, stop_there=True)
    )
    stopped_at(name, reader)
    with pipeline.source() as source:
        source.execute("TRUNCATE orders")
    until(lambda: pipeline.states()["orders"][0] == "Stopped")
    reader.signal(signal.SIGCONT)
    assert reader.wait() == 1
    assert "TableStopped: table orders is stopped: it was truncated" in reader.output
    stream.file("settled").touch()
    stream.finish()
    assert pipeline.states()["orders"][0] == "Stopped"
