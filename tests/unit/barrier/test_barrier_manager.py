"""What actors may say to their graph, and what the graph hears first."""

from dataclasses import replace

import pytest

from ops.barrier_manager.cdc_progress import CdcProgress
from ops.barrier_manager.events import (
    ActorCollected,
    ActorFailed,
    CdcSourceOffsetUpdated,
    CdcTableBackfillProgress,
    CreateProgress,
    subject_of,
)
from ops.barrier_manager.manager import GraphReset, LocalBarrierManager
from ops.barrier_manager.progress import DoneLogStore
from ops.common.barrier import Add, Barrier, BarrierKind, Stop
from ops.common.epoch import Epoch, EpochPair
from ops.common.errors import BarrierOutOfOrder, UnknownActor


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
    # Nothing is committed after it: it is all that is heard; the others count for the cause.
    assert [manager.next_event(0.0) for _ in range(3)] == [ActorFailed("view", broken)] * 3
    manager.close()
    manager.notify_failure("source", broken)
    assert [(f.actor, f.error) for f in manager.failures] == [
        ("view", broken),
        ("source", later),
        ("source", broken),
    ]


@pytest.mark.parametrize(
    "say",
    [
        lambda m: m.subscribe_barrier("nobody"),
        lambda m: m.collect("nobody", barrier(0)),
        lambda m: m.notify_failure("nobody", ValueError()),
        lambda m: m.report_create_progress("nobody", barrier(0), "v", DoneLogStore()),
        lambda m: m.report_cdc_progress("nobody", barrier(0), "t", CdcProgress(1, 1, 0, 0, 0)),
        lambda m: m.report_source_offset("nobody", barrier(0), "s", rows=1, lsn=None),
    ],
)
def test_nobody_else_may_speak(manager: LocalBarrierManager, say) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UnknownActor) as refused:
        say(manager)
    assert (refused.value.actor, refused.value.graph) == ("nobody", "g")
    assert manager.next_event(0.001) is None


def test_reports_come_in_the_order_of_their_saying(manager: LocalBarrierManager) -> None:
    progress = CdcProgress(1, 4, 2, 1, 10)
    manager.report_create_progress("view", barrier(0), "v", DoneLogStore())
    manager.report_cdc_progress("source", barrier(0), "t", progress)
    manager.report_source_offset("source", barrier(0), "s", rows=7, lsn=99)
    manager.collect("source", barrier(0))
    heard = [manager.next_event(0.0) for _ in range(4)]
    assert heard == [
        CreateProgress("view", barrier(0), "v", DoneLogStore()),
        CdcTableBackfillProgress("source", barrier(0), "t", progress),
        CdcSourceOffsetUpdated("source", barrier(0), "s", 7, 99),
        ActorCollected("source", barrier(0), None),
    ]
    said = [
        e for e in heard[:3] if e is not None and not isinstance(e, ActorCollected | ActorFailed)
    ]
    assert [subject_of(e) for e in said] == [("view", "v"), ("table", "t"), ("source", "s")]


def test_who_has_collected_must_not_subscribe_again(manager: LocalBarrierManager) -> None:
    manager.subscribe_barrier("source")
    manager.subscribe_barrier("source")
    manager.collect("source", barrier(0))
    with pytest.raises(BarrierOutOfOrder, match="source subscribes again"):
        manager.subscribe_barrier("source")
    manager.subscribe_barrier("view")


def test_an_actor_meets_the_barriers_of_its_life_only(manager: LocalBarrierManager) -> None:
    stays, leaves = manager.subscribe_barrier("source"), manager.subscribe_barrier("view")
    adds = replace(barrier(1), mutation=Add((), ("new",)))
    stops = replace(barrier(2), mutation=Stop(("view",)))
    sent = [barrier(0), adds, stops, barrier(3)]
    for one in sent:
        manager.send(one)
    joins, late = manager.subscribe_barrier("new"), manager.subscribe_barrier("view")
    manager.send(barrier(4))
    assert [stays.take(0.0) for _ in range(6)] == [*sent, barrier(4), None]
    assert [leaves.take(0.0) for _ in range(4)] == [*sent[:3], None]
    assert [late.take(0.0) for _ in range(4)] == [*sent[:3], None]
    assert [joins.take(0.0) for _ in range(5)] == [*sent[1:], barrier(4), None]


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
