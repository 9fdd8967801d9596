"""The worker with a real store, threads for actors, and a clock that moves when slept on."""

import threading

import pytest

from ops.barrier_worker.lease import take_over
from ops.common.errors import ConsistencyError, TermOver, TransientError
from resources.clock import ManualClock
from resources.control_store import ControlStore
from tests.support import toy_graph
from tests.support.control import SCHEMA, Place, new_place
from tests.support.toy_graph import (
    Run,
    barriers,
    epochs,
    offered_so_far,
    require_sound,
    running,
)


@pytest.fixture
def place(shared: ControlStore) -> Place:
    made = new_place(shared)
    grant(made)
    return made


def grant(place: Place, seconds: float = 1000) -> None:
    place.store.execute("grant_barriers", pipeline=place.pipeline, seconds=seconds)


def set_live(place: Place, *, interval_ms: int | None = None, frequency: int | None = None) -> None:
    place.store.execute(
        "set_pipeline_settings",
        pipeline=place.pipeline,
        has_interval=interval_ms is not None,
        interval_ms=interval_ms,
        has_frequency=frequency is not None,
        checkpoint_frequency=frequency,
    )


def command(place: Place, kind: str) -> int:
    return int(place.store.query("insert_command", pipeline=place.pipeline, kind=kind)[0]["id"])


def done(place: Place, asked: int) -> int | None:
    return place.store.query("select_command", command=asked)[0]["done_epoch"]


def kinds(place: Place) -> list[str]:
    return [b["kind"] for b in barriers(place)]


def paused(place: Place, wanted: bool) -> None:
    place.store.execute("set_paused", pipeline=place.pipeline, paused=wanted)


def pass_time(run: Run, seconds: float) -> None:
    """Let time pass, and the worker look a few times after that."""
    clock = run.worker.clock
    target = clock.monotonic() + seconds
    while clock.monotonic() < target:
        clock.sleep(target - clock.monotonic())
    run.until(lambda: clock.monotonic() > target + 0.2)


def turn(place: Place, word: str) -> int:
    """Pause or resume as the command line does."""
    with place.store.transaction():
        paused(place, word == "pause")
        return command(place, word)


def test_every_third_is_a_checkpoint_and_takes_all(place: Place) -> None:
    set_live(place, frequency=3)
    offered = [1, 2, 3]
    with running(place, offered) as run:
        run.until(lambda: len(run.graph.completed) == 1)
        offered.append(4)
        run.until(lambda: len(run.graph.completed) == 2)
    assert kinds(place)[:7] == ["Initial", *["Barrier", "Barrier", "Checkpoint"] * 2]
    first = run.graph.completed[0]
    made = barriers(place)
    assert first.covers == tuple(b["prev"] for b in made[1:4])
    assert [e["offsets"]["toy"]["count"] for e in epochs(place)][:2] == [3, 1]
    assert [b["waiting_rows"] for b in made[2:5]] == [3, 3, 0]
    require_sound(place)


def test_nothing_is_written_for_a_barrier(place: Place) -> None:
    set_live(place, frequency=1000)
    with running(place, [1]) as run:
        run.until(lambda: kinds(place).count("Barrier") == 5)
        attempts = place.store._connection().execute(
            "SELECT count(*) AS n FROM attempts WHERE graph = %s", (place.main,)
        )
        assert attempts.fetchall() == [{"n": 0}] and epochs(place) == []
    # It ends at a checkpoint, with all that was gathered.
    assert kinds(place)[-1] == "SyncCheckpoint" and offered_so_far(place) == 1
    require_sound(place)


def test_settings_are_taken_while_it_runs(place: Place) -> None:
    clock = ManualClock()
    set_live(place, interval_ms=3_600_000)
    offered = [1]
    with running(place, offered, clock=clock) as run:
        run.until(lambda: run.graph.source.gathered == 1)
        assert not run.graph.completed
        set_live(place, interval_ms=100)
        run.until(lambda: len(run.graph.completed) == 1)
        set_live(place, frequency=2)
        offered.append(2)
        run.until(lambda: len(run.graph.completed) == 2)
    assert kinds(place)[:4] == ["Initial", "Checkpoint", "Barrier", "Checkpoint"]


def test_an_hour_is_an_hour(place: Place) -> None:
    set_live(place, interval_ms=3_600_000)
    with running(place, [1], idle_s=30) as run:
        run.until(lambda: run.graph.source.gathered == 1)
        pass_time(run, 3500)
        assert kinds(place) == ["Initial"]
        pass_time(run, 200)
        assert kinds(place) == ["Initial", "Checkpoint"]


def test_without_a_grant_it_rests_at_a_checkpoint(place: Place) -> None:
    set_live(place, frequency=1000)
    offered = [1]
    with running(place, offered) as run:
        run.until(lambda: kinds(place).count("Barrier") == 2)
        grant(place, -1)
        run.until(lambda: len(run.graph.completed) == 1)
        offered.append(2)
        made = len(kinds(place))
        pass_time(run, 10)
        assert len(kinds(place)) == made, "no grant, no barrier"
        assert kinds(place)[-1] == "Checkpoint"


def test_a_full_source_is_not_left_waiting(place: Place) -> None:
    set_live(place, interval_ms=3_600_000, frequency=9)
    with running(place, [1]) as run:
        run.graph.full = True
        run.until(lambda: len(run.graph.completed) == 1)


def test_pause_and_resume(place: Place) -> None:
    offered = [1]
    with running(place, offered) as run:
        run.until(lambda: offered_so_far(place) == 1)
        asked = turn(place, "pause")
        run.until(lambda: done(place, asked) is not None)
        made = len(kinds(place))
        offered += [2, 3]
        flush = command(place, "flush")
        pass_time(run, 50)
        assert offered_so_far(place) == 1 and len(kinds(place)) == made
        assert done(place, flush) is None, "a flush would lie: nothing is read"
        resumed = turn(place, "resume")
        run.until(lambda: done(place, flush) is not None)
        assert offered_so_far(place) == 3
        assert (done(place, resumed) or 0) < (done(place, flush) or 0)
    carried = [b["mutation"] for b in barriers(place) if b["mutation"]]
    assert carried == ["Pause", "Resume", "Stop"]
    require_sound(place)


def test_a_pause_taken_back_before_anybody_looked_is_only_answered(place: Place) -> None:
    paused(place, True)
    asked = [command(place, "pause"), command(place, "resume")]
    paused(place, False)
    with running(place, []) as run:
        run.until(lambda: all(done(place, c) for c in asked))
    assert [b["mutation"] for b in barriers(place)] == [None, None, "Stop"]


def test_wanted_paused_it_starts_paused(place: Place) -> None:
    paused(place, True)
    offered = [1, 2]
    with running(place, offered) as run:
        run.until(lambda: kinds(place) == ["Initial"])
        pass_time(run, 30)
        assert kinds(place) == ["Initial"] and barriers(place)[0]["mutation"] == "Pause"
        assert run.graph.source.gathered == 0
        paused(place, False)
        run.until(lambda: offered_so_far(place) == 2)


def test_stopped_while_paused_nothing_more_is_read(place: Place) -> None:
    offered = [1]
    with running(place, offered) as run:
        run.until(lambda: offered_so_far(place) == 1)
        paused(place, True)
        run.until(lambda: run.worker.controls.paused)
        offered.append(2)
    assert offered_so_far(place) == 1
    assert kinds(place)[-1] == "SyncCheckpoint"


def attempt_states(place: Place) -> list[str]:
    rows = place.store._connection().execute(
        "SELECT state FROM attempts WHERE graph = %s ORDER BY id", (place.main,)
    )
    return [row["state"] for row in rows.fetchall()]


def test_a_failed_actor_ends_the_graph_uncommitted(place: Place) -> None:
    offered = [1]
    with running(place, offered) as run:
        run.until(lambda: offered_so_far(place) == 1)
        broken = ConsistencyError("broken")
        run.graph.views[0].fail = broken
        offered.append(2)
        assert run.ended() is broken
    assert offered_so_far(place) == 1
    assert set(attempt_states(place)) <= {"committed", "failed"}


def test_the_cause_is_chosen_among_all_that_failed(place: Place) -> None:
    with running(place, [], views=2) as run:
        lost, bug = TransientError("lost"), ZeroDivisionError("bug")
        run.graph.views[1].ends_with = bug
        run.graph.source.fail = lost
        assert run.ended() is bug
    with running(place, [], views=2) as run:
        run.graph.views[1].ends_with = TransientError("an echo")
        run.graph.source.fail = lost
        assert run.ended() is lost, "of equals the first"


def test_it_recovers_within_its_term(place: Place) -> None:
    """The Initial barrier closes the same epoch as the checkpoint that was committed last."""
    offered = [1]
    with running(place, offered) as run:
        run.until(lambda: offered_so_far(place) == 1)
        worker, lost = run.worker, TransientError("lost")
        run.graph.source.fail = lost
        assert run.ended() is lost
        worker.keeper.term = toy_graph.acquired_again(place, worker.keeper.term)
        offered.append(2)
        source = toy_graph.ToySource(offered, offered_so_far(place))
        graph = toy_graph.ToyGraph(place, source, [])
        over = threading.Event()
        thread = threading.Thread(target=worker.run, args=(graph,), kwargs={"until": over.is_set})
        thread.start()
        toy_graph.until(lambda: offered_so_far(place) == 2)
        over.set()
        thread.join(10)
    assert kinds(place).count("Initial") == 2
    assert {b["term"] for b in barriers(place)} == {1}
    require_sound(place)


def test_a_clock_that_steps_back_costs_nothing(place: Place) -> None:
    clock = ManualClock()
    offered = [1]
    with running(place, offered, clock=clock) as run:
        for count in range(1, 5):
            run.until(lambda: offered_so_far(place) == len(offered))
            clock.step_back(3_600_000 if count % 2 else -7_200_000)
            offered.append(count)
    assert offered_so_far(place) == 5
    require_sound(place)


def test_whose_term_is_over_cannot_commit(place: Place) -> None:
    offered = [1]
    with running(place, offered) as run:
        run.until(lambda: offered_so_far(place) == 1)
        run.graph.before_commit = lambda: (take_over(place.store, place.main, owner="you"), None)[1]
        offered.append(2)
        assert isinstance(run.ended(), TermOver)
    assert offered_so_far(place) == 1 and place.graph()["term"] == 2
    with pytest.raises(AssertionError, match="term"):
        # The judge itself: a barrier of the old term after one of the new is found.
        insert_barrier(place, 2)
        insert_barrier(place, 1)
        require_sound(place)


def insert_barrier(place: Place, term: int, prev: int = 1) -> None:
    place.store.execute(
        "insert_barrier",
        graph=place.main,
        prev=prev,
        curr=prev + 1,
        term=term,
        kind="Initial",
        mutation=None,
        waiting_rows=0,
    )


def test_the_trace_is_trimmed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.barrier_worker.worker.TRIM_EVERY", 10)
    monkeypatch.setattr("ops.barrier_worker.worker.KEPT_BARRIERS", 5)
    set_live(place, interval_ms=100, frequency=10_000)
    other = new_place(place.store)
    insert_barrier(other, 1)
    with running(place, [1]) as run:
        run.until(lambda: len(run.graph.source.seen) >= 35)
        made = [b.epoch.prev for b in run.graph.source.seen]
    left = [b["prev"] for b in barriers(place)]
    assert 5 <= len(left) <= 16 and left[0] > made[0]
    assert left[-3:] == sorted(left)[-3:]
    assert len(barriers(other)) == 1


def test_a_view_rejoins_at_a_checkpoint_and_not_while_paused(place: Place) -> None:
    set_live(place, frequency=1000)
    paused(place, True)
    table = place.create("t", SCHEMA)
    place.store.execute("set_relation_live", relation=table.id, epoch=1)
    place.create("v", SCHEMA, kind="view", upstream=table.id, state="Finishing")
    place.store.execute(
        "bind_relations",
        pipeline=place.pipeline,
        term=1,
        relations=[table.id, place.relation("v").id],
    )
    with running(place, []) as run:
        run.until(lambda: kinds(place) == ["Initial"])
        pass_time(run, 30)
        assert run.graph.taken_in == []
        paused(place, False)
        run.until(lambda: bool(run.graph.taken_in))
        run.until(lambda: len(run.graph.completed) >= 2)
    made = barriers(place)
    assert [(b["kind"], b["mutation"]) for b in made[:3]] == [
        ("Initial", "Pause"),
        ("SyncCheckpoint", "Resume"),
        ("Checkpoint", "Add"),
    ]
    assert run.graph.taken_in[0] == ("v",)
