"""The one commit point: guarded by epoch and term, refused to a retired attempt, all or nothing."""

from dataclasses import replace

import pytest
from psycopg import sql

from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import Term, acquire, take_over
from ops.common.epoch import Epoch
from ops.common.errors import AttemptRetired, TermOver
from ops.common.ports import Statements
from ops.common.table.relation import StagedFile
from resources.control_store import ControlStore
from resources.errors import TransientError
from tests.support.control import SCHEMA, Place, new_place


@pytest.fixture
def place(shared: ControlStore) -> Place:
    return new_place(shared)


def owned(place: Place) -> Term:
    return acquire(place.store, place.main, owner="me", seconds=60)


def prepared(place: Place, term: Term, *, prev: int = 0, epoch: int = 100) -> EpochCommit:
    table = place.create("t", SCHEMA)
    attempt = open_attempt(place.store, place.main, term.term, place.pipeline)
    files = [
        StagedFile(table.id, attempt.id, "log", f"{attempt.directory}/{n}", 3, 10, 1)
        for n in range(2)
    ]
    files[1] = replace(files[1], after=Epoch(7))
    return EpochCommit(
        place.main, term.term, Epoch(prev), Epoch(epoch), (attempt.id,), files, {"s": {"lsn": 5}}
    )


def commit(place: Place, what: EpochCommit) -> list[str]:
    passed: list[str] = []
    commit_epoch(place.store, what, failpoint=passed.append, name="tick")
    return passed


def nothing_of(place: Place, what: EpochCommit) -> bool:
    """Say whether no trace of the commit is there."""
    store = place.store
    files = store.query("select_listing", relation=what.files[0].relation)[0]["files"]
    epochs = store.query("select_epoch", graph=what.graph, epoch=what.epoch)
    return files == [] and epochs == [] and place.committed() != what.epoch


def attempt_state(place: Place, attempt: int) -> str:
    found = place.store._connection().execute(
        "SELECT state FROM attempts WHERE id = %s", (attempt,)
    )
    return str(found.fetchall()[0]["state"])


def test_everything_becomes_visible_together(place: Place) -> None:
    what = prepared(place, owned(place))
    assert nothing_of(place, what)
    assert commit(place, what) == ["tick.before_commit", "tick.after_commit"]
    assert place.committed() == 100
    first, second = place.store.query("select_listing", relation=what.files[0].relation)[0]["files"]
    assert (first["after"], first["epoch"], first["unknown_rows"]) == (0, 100, 1)
    assert (second["after"], second["epoch"]) == (7, 100)
    assert attempt_state(place, what.attempts[0]) == "committed"
    row = place.store._connection().execute(
        "SELECT rows, offsets, prev FROM epochs WHERE graph = %s", (place.main,)
    )
    assert row.fetchall() == [{"rows": 6, "offsets": {"s": {"lsn": 5}}, "prev": 0}]


def test_a_second_commit_of_the_same_epoch_is_refused(place: Place) -> None:
    what = prepared(place, owned(place))
    commit(place, what)
    with pytest.raises(TermOver):
        commit(place, what)
    assert (
        len(place.store.query("select_listing", relation=what.files[0].relation)[0]["files"]) == 2
    )


@pytest.mark.parametrize("prev", [1, 99, 100])
def test_the_epoch_before_must_be_the_committed_one(place: Place, prev: int) -> None:
    what = prepared(place, owned(place), prev=prev)
    with pytest.raises(TermOver):
        commit(place, what)
    assert nothing_of(place, what)


def test_an_old_term_cannot_commit_and_says_so(place: Place) -> None:
    what = prepared(place, owned(place))
    take_over(place.store, place.main, owner="other")
    with pytest.raises(TermOver, match="term 1 of") as over:
        commit(place, what)
    assert (over.value.graph, over.value.term) == (place.main, 1)
    assert nothing_of(place, what)


def test_an_old_term_cannot_begin_an_attempt(place: Place) -> None:
    term = owned(place)
    take_over(place.store, place.main, owner="other")
    with pytest.raises(TermOver):
        open_attempt(place.store, place.main, term.term, place.pipeline)


def test_a_retired_attempt_cannot_commit(place: Place) -> None:
    what = prepared(place, owned(place))
    place.store.execute("fail_attempt", attempt=what.attempts[0])
    place.store.execute("retire_attempts", pipeline=place.pipeline)
    with pytest.raises(AttemptRetired) as refused:
        commit(place, what)
    assert refused.value.attempt == what.attempts[0]
    assert nothing_of(place, what)


def test_one_retired_attempt_of_several_refuses_all(place: Place) -> None:
    term = owned(place)
    what = prepared(place, term)
    other = open_attempt(place.store, place.main, term.term, place.pipeline)
    place.store.execute("fail_attempt", attempt=other.id)
    with pytest.raises(AttemptRetired):
        commit(place, replace(what, attempts=(*what.attempts, other.id)))
    assert nothing_of(place, what)
    assert attempt_state(place, what.attempts[0]) == "open"


def test_somebody_elses_attempt_cannot_be_committed(place: Place) -> None:
    what = prepared(place, owned(place))
    view = acquire(place.store, place.relation("t").graph, owner="v", seconds=60)
    theirs = open_attempt(place.store, view.graph, view.term, place.pipeline)
    with pytest.raises(AttemptRetired):
        commit(place, replace(what, attempts=(theirs.id,)))
    assert nothing_of(place, what)


def test_what_goes_with_it_fails_with_it(place: Place) -> None:
    what = prepared(place, owned(place))

    def also(tx: Statements) -> None:
        tx.execute(
            "ensure_graph", graph=f"{place.pipeline}/x", pipeline=place.pipeline, kind="main"
        )
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        commit_epoch(place.store, what, failpoint=lambda _: None, name="tick", also=also)
    assert nothing_of(place, what)
    assert place.store.query("select_graph", graph=f"{place.pipeline}/x") == []
    commit(place, what)


def test_each_attempt_has_a_directory_of_its_own(place: Place) -> None:
    term = owned(place)
    made = [open_attempt(place.store, place.main, term.term, "x/_attempts") for _ in range(3)]
    assert len({a.directory for a in made}) == 3
    assert all(a.directory.startswith("x/_attempts/") for a in made)


def test_a_full_disk_under_the_store_leaves_nothing_and_may_pass(place: Place) -> None:
    """The server itself refuses the row, as it does when it cannot extend a file."""
    what = prepared(place, owned(place))
    connection = place.store._connection()
    connection.execute(
        "CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.graph = TG_ARGV[0] THEN RAISE 'no space left on device' "
        "USING ERRCODE = 'disk_full'; END IF; RETURN NEW; END $$"
    )
    connection.execute(
        sql.SQL(
            "CREATE TRIGGER full_disk BEFORE INSERT ON epochs "
            "FOR EACH ROW EXECUTE FUNCTION no_space({})"
        ).format(sql.Literal(place.main))
    )
    try:
        with pytest.raises(TransientError, match="no space left"):
            commit(place, what)
        assert nothing_of(place, what) and attempt_state(place, what.attempts[0]) == "open"
    finally:
        connection = place.store._connection()
        connection.execute("DROP TRIGGER full_disk ON epochs")
        connection.execute("DROP FUNCTION no_space")
    commit(place, what)
    assert place.committed() == 100
