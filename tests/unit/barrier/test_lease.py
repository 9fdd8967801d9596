"""Who owns a graph is judged by the store's clock, and an old owner finds out."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ops.barrier_worker.lease import LeaseKeeper, Term, acquire, take_over
from ops.common.errors import LeaseHeld, TermOver, UnknownRelation, is_transient
from resources.control_store import ControlStore, StoreUnreachable
from tests.support.control import Place, new_place
from tests.support.source_place import until


@pytest.fixture
def place(shared: ControlStore) -> Place:
    return new_place(shared)


def expire(place: Place) -> None:
    """Let the lease be over by the store's clock."""
    connection = place.store._connection()
    connection.execute(
        "UPDATE graphs SET lease_until = clock_timestamp() - interval '1 ms' WHERE id = %s",
        (place.main,),
    )


def test_taking_a_free_graph(place: Place) -> None:
    term = acquire(place.store, place.main, owner="a", seconds=30)
    assert term == Term(place.main, 1, 0, 1)
    found = place.graph()
    assert found["owner"] == "a" and 29 < found["seconds_left"] <= 30


def test_a_held_lease_names_its_owner(place: Place) -> None:
    acquire(place.store, place.main, owner="host-a/77", seconds=30)
    with pytest.raises(LeaseHeld, match="host-a/77") as held:
        acquire(place.store, place.main, owner="b", seconds=30)
    assert is_transient(held.value) and 29 < held.value.seconds_left <= 30
    assert place.graph()["term"] == 1, "a refusal changes nothing"


def test_even_its_own_owner_must_wait(place: Place) -> None:
    acquire(place.store, place.main, owner="a", seconds=30)
    with pytest.raises(LeaseHeld):
        acquire(place.store, place.main, owner="a", seconds=30)


def test_an_expired_lease_is_taken_with_a_new_term(place: Place) -> None:
    acquire(place.store, place.main, owner="a", seconds=30)
    expire(place)
    assert acquire(place.store, place.main, owner="b", seconds=30).term == 2
    assert place.graph()["owner"] == "b"


def test_one_of_many_gets_it(place: Place) -> None:
    start = threading.Barrier(6)

    def wants(owner: int) -> int | None:
        start.wait()
        try:
            return acquire(place.store, place.main, owner=str(owner), seconds=30).term
        except LeaseHeld:
            return None

    with ThreadPoolExecutor(6) as pool:
        terms = list(pool.map(wants, range(6)))
    assert sorted(t for t in terms if t) == [1]


def test_an_unknown_graph(place: Place) -> None:
    with pytest.raises(UnknownRelation):
        acquire(place.store, "nothing", owner="a", seconds=30)


def test_take_over_ends_a_term_at_once(place: Place) -> None:
    follower = acquire(place.store, place.main, owner="a", seconds=30)
    taken = take_over(place.store, place.main, owner="main")
    assert taken.term == follower.term + 1
    renewed = place.store.execute("renew_lease", graph=place.main, term=follower.term, seconds=30.0)
    assert renewed == 0


def test_a_keeper_renews(place: Place) -> None:
    term = acquire(place.store, place.main, owner="a", seconds=0.4)
    with LeaseKeeper(place.store, term, seconds=0.4) as keeper:
        first = lease_until(place)
        until(lambda: lease_until(place) > first)
        keeper.check()
    left = place.graph()
    assert left["owner"] is None and left["seconds_left"] == 0, "released when left"
    assert acquire(place.store, place.main, owner="b", seconds=30).term == 2


def test_a_keeper_finds_out_that_its_term_is_over(place: Place) -> None:
    term = acquire(place.store, place.main, owner="a", seconds=0.2)
    with LeaseKeeper(place.store, term, seconds=0.2) as keeper:
        take_over(place.store, place.main, owner="b")
        until(lambda: lost(keeper))
        with pytest.raises(TermOver) as over:
            keeper.check()
        assert (over.value.graph, over.value.term) == (place.main, 1)
        acquire(place.store, place.main, owner="c", seconds=30)
    assert place.graph()["owner"] == "c", "leaving must not release somebody else's lease"


class Flaky:
    """A store that is away for some calls."""

    def __init__(self, store: ControlStore, away: int) -> None:
        self.store, self.away = store, away

    def execute(self, statement: str, /, **values: Any) -> int:
        if self.away:
            self.away -= 1
            raise StoreUnreachable("it is away")
        return self.store.execute(statement, **values)


def test_a_keeper_outlives_a_store_that_is_away_for_a_moment(place: Place) -> None:
    term = acquire(place.store, place.main, owner="a", seconds=5)
    flaky: Any = Flaky(place.store, away=2)
    with LeaseKeeper(flaky, term, seconds=0.1) as keeper:
        first = lease_until(place)
        until(lambda: lease_until(place) != first)
        keeper.check()
    assert flaky.away == 0


def lease_until(place: Place) -> Any:
    connection = place.store._connection()
    row = connection.execute("SELECT lease_until FROM graphs WHERE id = %s", (place.main,))
    return row.fetchall()[0]["lease_until"]


def lost(keeper: LeaseKeeper) -> bool:
    try:
        keeper.check()
    except TermOver:
        return True
    return False
