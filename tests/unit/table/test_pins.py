"""A pinned epoch is held for all relations at once, for as long as the reader lives."""

import threading

import pytest

from ops.barrier_worker.commit import EpochCommit, commit_epoch, list_file, open_attempt
from ops.barrier_worker.lease import Term, acquire
from ops.common.epoch import Epoch
from ops.common.errors import EpochGone
from ops.common.ports import unarmed
from ops.common.table.pins import PinLost, pinned
from ops.common.table.relation import Relation, StagedFile, listing
from resources.control_store import ControlStore
from tests.support.control import SCHEMA, Place, new_place
from tests.support.source_place import until


@pytest.fixture
def place(shared: ControlStore) -> Place:
    """Two tables with a log file each at 10, 20 and 30."""
    made = new_place(shared)
    tables = [made.create(name, SCHEMA) for name in "ab"]
    term = acquire(made.store, made.main, owner="me", seconds=60)
    for prev, epoch in ((0, 10), (10, 20), (20, 30)):
        attempt = open_attempt(made.store, made.main, term.term, made.pipeline)
        files = [
            StagedFile(t.id, attempt.id, "log", f"{attempt.directory}/{t.name}", 1, 1)
            for t in tables
        ]
        commit = EpochCommit(made.main, term.term, Epoch(prev), Epoch(epoch), (attempt.id,), files)
        commit_epoch(made.store, commit, failpoint=unarmed, name="tick")
    return made


def tables(place: Place) -> list[Relation]:
    return [place.relation(name) for name in "ab"]


def pins(place: Place, name: str) -> list[int]:
    rows = place.store.query("select_pins", relation=place.relation(name).id)
    return [row["epoch"] for row in rows]


def test_the_newest_epoch_of_several_tables(place: Place) -> None:
    with pinned(place.store, tables(place), main_graph=place.main) as held:
        assert held.epoch == 30
        assert [len(held.contents[t.id].logs) for t in tables(place)] == [3, 3]
        assert pins(place, "a") == pins(place, "b") == [30]
    assert pins(place, "a") == pins(place, "b") == []


def test_an_epoch_that_one_of_them_has_lost_is_held_for_none(place: Place) -> None:
    gone = place.relation("b")
    place.store.execute("set_log_start", relation=gone.id, epoch=20)
    with (
        pytest.raises(EpochGone, match="b cannot be read as of epoch 20"),
        pinned(place.store, tables(place), main_graph=place.main, as_of=Epoch(20)),
    ):
        raise AssertionError("never held")
    assert pins(place, "a") == []


def test_a_reader_that_fails_lets_go(place: Place) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        pinned(place.store, tables(place), main_graph=place.main, as_of=Epoch(10)),
    ):
        assert pins(place, "a") == [10]
        raise ZeroDivisionError
    assert pins(place, "a") == []


def test_a_living_reader_renews(place: Place) -> None:
    renewed: list[str] = []
    with pinned(
        place.store, tables(place), main_graph=place.main, seconds=0.2, failpoint=renewed.append
    ):
        until(lambda: renewed.count("pin.after_renew") >= 6)
        assert pins(place, "a") == [30], "three times as long as it was taken for"


def test_a_reader_that_is_gone_holds_nothing_for_long(place: Place) -> None:
    """One that was away for too long is told that what it read may be wrong."""

    def sleep_at(name: str) -> None:
        if name == "pin.before_renew":
            until(lambda: pins(place, "a") == [])

    with (
        pytest.raises(PinLost, match="read again"),
        pinned(place.store, tables(place), main_graph=place.main, seconds=0.1, failpoint=sleep_at),
    ):
        until(lambda: pins(place, "a") == [])
        place.store.execute("delete_expired_pins", pipeline=place.pipeline)


def test_a_pin_taken_while_a_merge_commits_waits_for_it(place: Place) -> None:
    """It then sees what the merge has left: the epoch inside the merged range is gone by name."""
    merged = place.relation("a")
    told: list[object] = []

    def read(epoch: int) -> None:
        try:
            with pinned(place.store, [merged], main_graph=place.main, as_of=Epoch(epoch)) as held:
                told.append([f.epoch for f in held.contents[merged.id].logs])
        except EpochGone as error:
            told.append(error)

    term = acquire_again(place)
    with place.store.transaction() as tx:
        tx.query("lock_relation", relation=merged.id)
        files = listing(tx, merged).files
        readers = [threading.Thread(target=read, args=(epoch,)) for epoch in (20, 30)]
        for reader in readers:
            reader.start()
        until(lambda: waiting_for_locks(place) == 2)
        assert told == [], "nobody reads half a merge"
        attempt = open_attempt(tx, place.main, term.term, place.pipeline)
        tx.execute("unlist_files", files=[f.id for f in files])
        file = StagedFile(merged.id, attempt.id, "log", f"{attempt.directory}/m", 1, 1)
        list_file(tx, file, after=files[0].after, epoch=files[-1].epoch)
    for reader in readers:
        reader.join()
    (gone,) = [t for t in told if isinstance(t, EpochGone)]
    assert gone.epoch == 20 and gone.nearest == 30
    assert [t for t in told if not isinstance(t, EpochGone)] == [[30]]


def test_what_is_unlisted_stays_for_who_pinned_before(place: Place) -> None:
    relation = place.relation("a")

    def removable() -> int:
        rows = place.store.query(
            "select_removable_files", pipeline=place.pipeline, grace_seconds=-1
        )
        return len(rows)

    with pinned(place.store, [relation], main_graph=place.main):
        files = listing(place.store, relation).files
        place.store.execute("unlist_files", files=[f.id for f in files[:2]])
        with pinned(place.store, [place.relation("b")], main_graph=place.main):
            assert removable() == 0
    with pinned(place.store, [relation], main_graph=place.main):
        assert removable() == 2, "who comes later has not seen them"


def acquire_again(place: Place) -> Term:
    place.store.execute("take_over_lease", graph=place.main, owner="other")
    return acquire(place.store, place.main, owner="merger", seconds=60)


def waiting_for_locks(place: Place) -> int:
    rows = place.store._connection().execute("SELECT count(*) AS n FROM pg_locks WHERE NOT granted")
    return int(rows.fetchall()[0]["n"])
