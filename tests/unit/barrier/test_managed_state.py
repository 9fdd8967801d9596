"""Barriers complete in order, when all have collected, and only along the chain."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.barrier_manager.events import CdcSourceOffsetUpdated
from ops.barrier_worker.managed_state import ManagedBarrierState
from ops.common.barrier import Add, Barrier, BarrierKind, Mutation, Stop, Update
from ops.common.epoch import Epoch, EpochPair
from ops.common.errors import BarrierOutOfOrder, DuplicateCollect, UnknownActor

ACTORS = ("a", "b", "c")


def chain(length: int) -> list[Barrier]:
    kinds = [BarrierKind.INITIAL, *[BarrierKind.CHECKPOINT] * length]
    return [
        Barrier(EpochPair(curr=Epoch(10 * n + 10), prev=Epoch(10 * n)), kind)
        for n, kind in enumerate(kinds[:length])
    ]


def begun(length: int) -> tuple[ManagedBarrierState, list[Barrier]]:
    state, barriers = ManagedBarrierState("g", frozenset(ACTORS)), chain(length)
    for barrier in barriers:
        state.inject(barrier)
    return state, barriers


@given(st.data())
def test_any_schedule_completes_all_in_order(data: st.DataObject) -> None:
    barriers = chain(data.draw(st.integers(1, 6)))
    state = ManagedBarrierState("g", frozenset(ACTORS))
    injected, collected = 0, dict.fromkeys(ACTORS, 0)
    done: list[Barrier] = []
    while len(done) < len(barriers):
        moves = [a for a in ACTORS if collected[a] < injected]
        if injected < len(barriers):
            moves.append("inject")
        move = data.draw(st.sampled_from(moves))
        if move == "inject":
            state.inject(barriers[injected])
            injected += 1
            continue
        number = collected[move]
        collected[move] += 1
        complete = state.collect(move, barriers[number], (move, number))
        expected = barriers[len(done) : min(collected.values())]
        assert [issued.barrier for issued in complete] == expected
        for issued in complete:
            place = barriers.index(issued.barrier)
            assert issued.outputs == {a: (a, place) for a in ACTORS}
        done += expected
    assert state.issued == []


def test_a_slow_actor_holds_back_all_later_ones() -> None:
    state, barriers = begun(2)
    for barrier in barriers:
        assert state.collect("a", barrier, None) == []
        assert state.collect("b", barrier, None) == []
    assert [i.barrier for i in state.collect("c", barriers[0], None)] == [barriers[0]]
    assert [i.barrier for i in state.collect("c", barriers[1], None)] == [barriers[1]]


def test_the_first_is_initial_and_only_the_first() -> None:
    state, (initial, checkpoint) = ManagedBarrierState("g", frozenset(ACTORS)), chain(2)
    with pytest.raises(BarrierOutOfOrder, match="not Initial"):
        state.inject(checkpoint)
    state.inject(initial)
    with pytest.raises(BarrierOutOfOrder, match="second Initial"):
        state.inject(replace(checkpoint, kind=BarrierKind.INITIAL))
    state.inject(checkpoint)


@pytest.mark.parametrize("prev", [0, 5, 11, 20])
def test_a_broken_chain_is_refused(prev: int) -> None:
    state, _ = begun(1)
    broken = Barrier(EpochPair(curr=Epoch(30), prev=Epoch(prev)), BarrierKind.CHECKPOINT)
    with pytest.raises(BarrierOutOfOrder, match=f"closes {prev}, open is 10"):
        state.inject(broken)


def test_a_collection_out_of_order_is_refused() -> None:
    state, barriers = begun(2)
    with pytest.raises(BarrierOutOfOrder, match="a collected"):
        state.collect("a", barriers[1], None)
    state.collect("a", barriers[0], None)


def test_a_second_collection_is_refused() -> None:
    state, barriers = begun(1)
    state.collect("a", barriers[0], None)
    with pytest.raises(DuplicateCollect) as twice:
        state.collect("a", barriers[0], None)
    assert (twice.value.actor, twice.value.graph, twice.value.prev) == ("a", "g", 0)
    state.collect("b", barriers[0], None)
    state.collect("c", barriers[0], None)
    with pytest.raises(DuplicateCollect):
        state.collect("c", barriers[0], None)


def test_a_stranger_is_refused() -> None:
    state, barriers = begun(1)
    with pytest.raises(UnknownActor, match="'d'"):
        state.collect("d", barriers[0], None)


def test_nothing_injected_nothing_collected() -> None:
    state = ManagedBarrierState("g", frozenset(ACTORS))
    with pytest.raises(BarrierOutOfOrder):
        state.collect("a", chain(1)[0], None)


def made(number: int, kind: BarrierKind, mutation: Mutation | None = None) -> Barrier:
    return Barrier(EpochPair(curr=Epoch(10 * number + 10), prev=Epoch(10 * number)), kind, mutation)


def test_a_checkpoint_covers_the_barriers_since_the_last() -> None:
    state = ManagedBarrierState("g", frozenset("a"))
    kinds = [
        "Initial",
        "Barrier",
        "Barrier",
        "Checkpoint",
        "Barrier",
        "SyncCheckpoint",
        "Checkpoint",
    ]
    covered = []
    for number, kind in enumerate(kinds):
        barrier = made(number, BarrierKind(kind))
        state.inject(barrier)
        (issued,) = state.collect("a", barrier, None)
        covered.append(issued.covers)
    assert covered == [(), (), (), (10, 20, 30), (), (40, 50), (60,)]
    assert state.uncheckpointed == ()


def test_who_is_added_and_who_is_stopped() -> None:
    state, (initial,) = begun(1)
    for actor in ACTORS:
        state.collect(actor, initial, None)
    joins = made(1, BarrierKind.CHECKPOINT, Add((), ("d",)))
    leaves = made(2, BarrierKind.CHECKPOINT, Stop(("a",)))
    after = made(3, BarrierKind.CHECKPOINT)
    for barrier in (joins, leaves, after):
        state.inject(barrier)
    assert [i.remaining for i in state.issued] == [set("abcd"), set("abcd"), set("bcd")]
    for barrier in (joins, leaves):
        state.collect("a", barrier, None)
    with pytest.raises(UnknownActor):
        state.collect("a", after, None)


def test_nothing_follows_a_stop_of_all() -> None:
    state, _ = begun(1)
    state.inject(made(1, BarrierKind.SYNC_CHECKPOINT, Stop()))
    with pytest.raises(BarrierOutOfOrder, match="stopped"):
        state.inject(made(2, BarrierKind.CHECKPOINT))


@pytest.mark.parametrize("mutation", [Stop(("x",)), Update((("x", frozenset({1})),))])
def test_a_mutation_names_actors_of_the_graph(mutation: Mutation) -> None:
    state, _ = begun(1)
    with pytest.raises(UnknownActor, match="'x'"):
        state.inject(made(1, BarrierKind.CHECKPOINT, mutation))
    state.inject(made(1, BarrierKind.CHECKPOINT))


def test_an_epoch_must_open_later_than_it_closes() -> None:
    state, _ = begun(1)
    with pytest.raises(BarrierOutOfOrder, match="no later epoch"):
        state.inject(Barrier(EpochPair(curr=Epoch(10), prev=Epoch(10)), BarrierKind.CHECKPOINT))


def test_reports_are_drawn_into_their_barrier() -> None:
    state, (first, second) = begun(2)

    def says(barrier: Barrier, actor: str, rows: int) -> bool:
        return state.report(CdcSourceOffsetUpdated(actor, barrier, f"of {actor}", rows, None))

    assert says(first, "a", 1) and says(first, "a", 2) and says(second, "a", 3)
    state.collect("a", first, None)
    assert not says(first, "a", 9), "after its collection"
    assert not says(first, "x", 9), "of nobody"
    assert says(first, "b", 4)
    state.collect("b", first, None)
    (done,) = state.collect("c", first, None)
    rows = {subject: r.rows for subject, r in done.reports.items() if hasattr(r, "rows")}
    assert rows == {("source", "of a"): 2, ("source", "of b"): 4}
    assert not says(first, "c", 9), "of a barrier that is gone"
