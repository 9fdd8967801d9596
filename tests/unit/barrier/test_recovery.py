"""What a failure leads to: who is asked, what is believed, and what is done about it."""

import itertools

import pytest

from ops.barrier_worker.recovery import (
    GIVE_UP_SECONDS,
    ActorEnded,
    Again,
    Ended,
    Event,
    Failure,
    GiveUp,
    GraceOver,
    Patience,
    Reset,
    Resetting,
    Running,
    State,
    Suspended,
    root_cause,
    step,
)
from ops.common.errors import (
    ConfigError,
    ConsistencyError,
    IllegalStep,
    NegativeRowCount,
    TermOver,
    TransientError,
)

LOST, BUG = Failure("source", TransientError("gone")), Failure("view", ZeroDivisionError())
BOTH = Reset(frozenset({"source", "view"}))


def steps(*events: Event) -> State:
    state: State = Running()
    for event in events:
        state = step(state, event)
    return state


def test_the_whole_way() -> None:
    assert steps(LOST) == Suspended((LOST,))
    assert steps(LOST, BOTH) == Resetting((LOST,), frozenset({"source", "view"}))
    assert steps(LOST, BOTH, ActorEnded("view")) == Resetting((LOST,), frozenset({"source"}))
    assert steps(LOST, BOTH, ActorEnded("view"), ActorEnded("source")) == Ended(LOST)


def test_a_failure_heard_late_may_be_the_cause() -> None:
    said = steps(LOST, BOTH, ActorEnded("source"), BUG)
    assert said == Resetting((LOST, BUG), frozenset({"view"}))
    assert step(said, ActorEnded("view")) == Ended(BUG)
    assert step(said, GraceOver()) == Ended(BUG)


def test_nobody_left_to_wait_for() -> None:
    assert steps(BUG, Reset(frozenset())) == Ended(BUG)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ((), Reset(frozenset())),
        ((), ActorEnded("a")),
        ((), GraceOver()),
        ((LOST,), ActorEnded("a")),
        ((LOST,), GraceOver()),
        ((LOST, BOTH), BOTH),
        ((LOST, Reset(frozenset())), LOST),
        ((LOST, Reset(frozenset())), GraceOver()),
    ],
)
def test_what_cannot_happen(before: tuple[Event, ...], event: Event) -> None:
    state = steps(*before)
    with pytest.raises(IllegalStep) as refused:
        step(state, event)
    assert (refused.value.state, refused.value.event) == (state, event)


def test_the_weightiest_is_the_cause_and_of_equals_the_first() -> None:
    by_weight: list[list[BaseException]] = [
        [TermOver("g", 1)],
        [NegativeRowCount(view="v", group=(1,), count=-1, epoch=1), ConfigError("c")],
        [ZeroDivisionError(), KeyError("k")],
        [TransientError("t"), TransientError("u")],
    ]
    for order in itertools.permutations(range(len(by_weight))):
        failures = [Failure("a", by_weight[i][0]) for i in order]
        assert root_cause(failures).error is by_weight[0][0]
    for heavier, lighter in itertools.pairwise(by_weight):
        for strong, weak in itertools.product(heavier, lighter):
            assert root_cause([Failure("a", weak), Failure("b", strong)]).error is strong
    for equals in by_weight[1:]:
        assert root_cause([Failure("a", e) for e in equals]).error is equals[0]


def test_what_may_pass_is_tried_again_with_longer_waits() -> None:
    patience, waits, now = Patience(), [], 1000.0
    for _ in range(7):
        patience, then = patience.after(TransientError("t"), now_s=now, moved=False)
        assert isinstance(then, Again)
        waits.append(then.wait_s)
        now += 1
    assert waits == [0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


def test_a_store_that_is_away_for_a_minute_is_waited_for() -> None:
    patience, now = Patience(), 0.0
    while now < 60:
        patience, then = patience.after(TransientError("away"), now_s=now, moved=False)
        assert isinstance(then, Again)
        now += then.wait_s


def test_what_does_not_pass_for_long_is_given_up() -> None:
    error = TransientError("t")
    patience, then = Patience().after(error, now_s=100.0, moved=False)
    patience, then = patience.after(error, now_s=100.0 + GIVE_UP_SECONDS - 1, moved=False)
    assert isinstance(then, Again)
    _, then = patience.after(error, now_s=100.0 + GIVE_UP_SECONDS, moved=False)
    assert then == GiveUp(error)
    # A commit in between begins the count anew.
    later, then = patience.after(error, now_s=100.0 + GIVE_UP_SECONDS, moved=True)
    assert isinstance(then, Again) and later.failures == 1


def test_what_never_passes_is_given_up_at_once() -> None:
    for error in (ConsistencyError("c"), TermOver("g", 1), ZeroDivisionError()):
        assert Patience().after(error, now_s=0.0, moved=True)[1] == GiveUp(error)
