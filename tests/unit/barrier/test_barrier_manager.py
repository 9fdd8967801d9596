"""What actors may say to their graph, and what the graph hears first."""

import pytest

from ops.barrier_manager.events import ActorCollected, ActorFailed
from ops.barrier_manager.manager import GraphReset, LocalBarrierManager
from ops.common.barrier import Add, Barrier, BarrierKind, Stop
from ops.common.epoch import Epoch, EpochPair
from ops.common.errors import UnknownActor


def barrier(number: int, kind: BarrierKind = BarrierKind.CHECKPOINT) -> Barrier:
    return Barrier(EpochPair(curr=Epoch(number + 1), prev=Epoch(number)), kind)


@pytest.fixture
def manager() -> LocalBarrierManager:
    return LocalBarrierManager("g", ("source", "view"))


def test_barriers_come_in_order(manager: LocalBarrierManager) -> None:
    receiver = manager.subscribe_barrier("source")
    for number in range(3):
        manager.send(barrier(number))
    assert [receiver.take(0.0) for _ in range(4)] == [barrier(0), barrier(1), barrier(2), None]


def test_a_late_subscriber_is_served_what_is_pending(manager: LocalBarrierManager) -> None:
    early = manager.subscribe_barrier("source")
    manager.send(barrier(0))
    manager.send(barrier(1))
    manager.completed(barrier(0))
    late = manager.subscribe_barrier("view")
    manager.send(barrier(2))
    assert [late.take(0.0) for _ in range(3)] == [barrier(1), barrier(2), None]
    assert [early.take(0.0) for _ in range(3)] == [barrier(0), barrier(1), barrier(2)]


def test_a_collection_is_heard_with_its_output(manager: LocalBarrierManager) -> None:
    manager.collect("source", barrier(0), "files")
    assert manager.next_event(0.0) == ActorCollected("source", barrier(0), "files")
    assert manager.next_event(0.001) is None


def test_a_failure_overtakes_collections_and_stays(manager: LocalBarrierManager) -> None:
    broken, later = ValueError("first"), ValueError("second")
    manager.collect("source", barrier(0))
    manager.notify_failure("view", broken)
    manager.notify_failure("source", later)
    # Nothing is committed after it: it is all that is heard, and the first is the cause.
    assert [manager.next_event(0.0) for _ in range(3)] == [ActorFailed("view", broken)] * 3


@pytest.mark.parametrize(
    "say",
    [
        lambda m: m.subscribe_barrier("nobody"),
        lambda m: m.collect("nobody", barrier(0)),
        lambda m: m.notify_failure("nobody", ValueError()),
    ],
)
def test_nobody_else_may_speak(manager: LocalBarrierManager, say) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownActor) as refused:
        say(manager)
    assert (refused.value.actor, refused.value.graph) == ("nobody", "g")
    assert manager.next_event(0.001) is None


def test_a_closed_graph_ends_its_actors(manager: LocalBarrierManager) -> None:
    manager.require_open()
    manager.close()
    with pytest.raises(GraphReset):
        manager.require_open()


def test_what_a_mutation_says() -> None:
    plain = barrier(0)
    assert plain.rejoining == () and not plain.stops
    assert Barrier(plain.epoch, plain.kind, Add(("v",))).rejoining == ("v",)
    stop = Barrier(plain.epoch, plain.kind, Stop())
    assert stop.stops and stop.rejoining == ()
