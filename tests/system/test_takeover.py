"""Who has lost its lease cannot commit and says so; who has none is told whose it is."""

import signal
import time
from collections.abc import Callable

import pytest

from tests.support.driver import FENCED, NOTE, Child, Job
from tests.support.judge import require_equal, require_no_orphans
from tests.support.pipeline import PIPELINE, TestPipeline
from tests.support.writer import LiveWriter
from tests.system.conftest import Launch, MakePipeline

ROWS = 1000
WHOLE = ("stream", "table", "view", "settle", "rest", "collect")


def stopped_at(name: str, child: Child) -> None:
    """Return once the child has stopped itself there: from now on it renews no lease."""
    note = child.job.settings.home / NOTE
    child.await_file(note)
    assert note.read_text() == name
    until(lambda: child.state() == "T")
    note.unlink()


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def committed_terms(pipeline: TestPipeline, graph: str) -> list[int]:
    """Return the terms of a graph's commits, in the order of the commits."""
    rows = pipeline.asked(f"SELECT term FROM epochs WHERE graph = '{graph}' ORDER BY committed_at")
    return [int(str(term)) for (term,) in rows]


def wakes_up_fenced(zombie: Child) -> None:
    zombie.signal(signal.SIGCONT)
    assert zombie.wait() == FENCED, zombie.output
    assert "TermOver: term " in zombie.output and "another process has taken it over" in (
        zombie.output
    )


@pytest.mark.parametrize(
    ("graph", "steps", "name"),
    [
        (PIPELINE, ("stream", "rest"), "tick.before_commit"),
        (f"{PIPELINE}/orders", ("table",), "backfill.before_watermark"),
    ],
    ids=["main graph", "backfill graph"],
)
def test_a_zombie_cannot_commit(
    graph: str, steps: tuple[str, ...], name: str, make_pipeline: MakePipeline, launch: Launch
) -> None:
    pipeline = make_pipeline(rows=ROWS)
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        job = Job(pipeline.settings, "zombie", steps, failpoint=name, stop_there=True)
        zombie = launch(job)
        stopped_at(name, zombie)
        before = committed_terms(pipeline, graph)
        heir = launch(Job(pipeline.settings, "heir", WHOLE))
        until(lambda: len(committed_terms(pipeline, graph)) > len(before))
        wakes_up_fenced(zombie)
        heir.await_file(heir.file("settled"))
        writer.stop()
    epoch = heir.finish()
    terms = committed_terms(pipeline, graph)
    assert terms == sorted(terms) and min(terms[len(before) :]) > max(before, default=0)
    require_equal(pipeline, epoch)
    require_no_orphans(pipeline)


def test_a_zombie_follower_cannot_commit(make_pipeline: MakePipeline, launch: Launch) -> None:
    pipeline = make_pipeline(rows=ROWS)
    name = "follow.before_commit"
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        run = launch(Job(pipeline.settings, "run", ("stream", "table", "rest", "collect")))
        job = Job(pipeline.settings, "zombie", ("view",), failpoint=name, stop_there=True)
        zombie = launch(job)
        stopped_at(name, zombie)
        heir = launch(Job(pipeline.settings, "heir", ("view", "settle")))
        assert heir.wait() == 0, heir.output
        wakes_up_fenced(zombie)
        assert pipeline.states()["revenue"] == ("Done", None)
        writer.stop()
    run.file("settled").touch()
    epoch = run.finish()
    require_equal(pipeline, epoch)
    require_no_orphans(pipeline)


def test_a_zombie_fold_changes_nothing(make_pipeline: MakePipeline, launch: Launch) -> None:
    pipeline = make_pipeline(rows=ROWS, full_identity=True, interval_ms=2000)
    with LiveWriter(pipeline.dsn, rows=ROWS) as writer:
        run = launch(Job(pipeline.settings, "run", WHOLE))
        run.await_file(run.file("settled"))
        for name in ("fold.before_create", "fold.before_delta", "fold.before_record"):
            owner = f"zombie {name}"
            job = Job(pipeline.settings, owner, ("fold",), failpoint=name, stop_there=True)
            zombie = launch(job)
            stopped_at(name, zombie)
            until(lambda: not held(pipeline, "maintenance"))
            bases = len(pipeline.asked("SELECT FROM bases"))
            heir = launch(Job(pipeline.settings, f"heir {name}", ("fold_again",)))
            assert heir.wait() == 0, heir.output
            assert len(pipeline.asked("SELECT FROM bases")) >= max(bases, 3), heir.output
            folded = pipeline.asked("SELECT relation, epoch, version FROM bases ORDER BY 1, 2")
            wakes_up_fenced(zombie)
            after = pipeline.asked("SELECT relation, epoch, version FROM bases ORDER BY 1, 2")
            assert after == folded
        writer.stop()
    epoch = run.finish()
    require_equal(pipeline, epoch)
    require_no_orphans(pipeline)


def held(pipeline: TestPipeline, kind: str) -> list[tuple[object, ...]]:
    """Return the graphs of this kind whose lease has not run out."""
    return pipeline.asked(
        f"SELECT id FROM graphs WHERE kind = '{kind}' AND lease_until > clock_timestamp()"
    )


def test_of_two_that_want_the_main_graph_one_is_told_who_has_it(
    make_pipeline: MakePipeline, launch: Launch
) -> None:
    pipeline = make_pipeline(rows=10, views={}, lease_seconds=5.0)
    racers = [
        launch(Job(pipeline.settings, owner, ("stream", "rest"), views=(), wait_s=0))
        for owner in ("ann", "ben")
    ]
    until(lambda: any(racer.process.exitcode is not None for racer in racers))
    (loser,) = [racer for racer in racers if racer.process.exitcode is not None]
    (winner,) = [racer for racer in racers if racer is not loser]
    assert loser.wait() == 1
    assert f"LeaseHeld: {PIPELINE} is being run by {winner.job.owner};" in loser.output
    winner.file("settled").touch()
    winner.finish()
    assert set(committed_terms(pipeline, PIPELINE)) == {1}
