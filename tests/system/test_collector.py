"""The collector beside somebody who has written and not committed yet."""

import signal

import pytest

from tests.support.driver import Job
from tests.support.judge import lake_rows, require_no_orphans, source_rows
from tests.support.pipeline import TestPipeline
from tests.system.conftest import Launch, MakePipeline
from tests.system.test_takeover import stopped_at, until


def written(pipeline: TestPipeline) -> set[str]:
    found = (pipeline.lake / "shop").rglob("*.parquet")
    return {str(path.relative_to(pipeline.lake)) for path in found}


@pytest.mark.parametrize(
    ("steps", "name"),
    [(("table",), "backfill.before_watermark"), (("stream", "rest"), "tick.after_log_write")],
    ids=["page", "log file"],
)
def test_files_of_a_living_attempt_stay(
    steps: tuple[str, ...], name: str, make_pipeline: MakePipeline, launch: Launch
) -> None:
    pipeline = make_pipeline(rows=600, views={}, lease_seconds=60.0)
    job = Job(pipeline.settings, "writer", steps, views=(), failpoint=name, stop_there=True)
    writer = launch(job)
    if "stream" in steps:
        with pipeline.source() as source:
            until(lambda: bool(pipeline.asked("SELECT FROM sources WHERE identity IS NOT NULL")))
            source.execute("UPDATE orders SET quantity = quantity + 1 WHERE id < 100")
    stopped_at(name, writer)
    before = written(pipeline)
    assert before and not pipeline.asked("SELECT FROM files"), "written, not committed"
    collector = launch(Job(pipeline.settings, "collector", ("collect",), views=()))
    assert collector.wait() == 0, collector.output
    # The other reader's page may have come meanwhile: Spark does not know that its driver sleeps.
    assert written(pipeline) >= before
    writer.signal(signal.SIGCONT)
    if "stream" in steps:
        writer.file("go").touch()
    writer.wait()
    require_no_orphans(pipeline)
    named = {str(path) for (path,) in pipeline.asked("SELECT path FROM files")}
    assert before <= named == written(pipeline)
    if "table" in steps:
        assert lake_rows(pipeline, "orders", 0) == source_rows(pipeline, "orders")
