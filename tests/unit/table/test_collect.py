"""Only what no commit can name any more is removed, and only after it was retired."""

from pathlib import Path

import pyarrow as pa
import pytest

from ops.barrier_worker.commit import EpochCommit, commit_epoch, open_attempt
from ops.barrier_worker.lease import Term, acquire, take_over
from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.errors import AttemptRetired, TermOver
from ops.common.table.collect import Collector
from ops.common.table.relation import StagedFile
from resources.control_store import ControlStore
from resources.lake import Lake
from tests.support.control import SCHEMA, Place, new_place

ROWS = pa.table({"id": [1]})


@pytest.fixture
def place(shared: ControlStore) -> Place:
    return new_place(shared)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


class Yard:
    """A pipeline with attempts whose files lie in a lake."""

    def __init__(self, place: Place, lake: Lake) -> None:
        self.place, self.lake = place, lake
        self.steps: list[str] = []
        self.collector = Collector(place.store, lake, self.steps.append)

    def owned(self) -> Term:
        return acquire(self.place.store, self.place.main, owner="me", seconds=60)

    def attempt(self, term: Term, files: int = 1) -> Attempt:
        made = open_attempt(self.place.store, term.graph, term.term, self.place.pipeline)
        for number in range(files):
            self.lake.write(f"{made.directory}/{number}.parquet", ROWS)
        return made

    def commit(self, term: Term, attempt: Attempt, prev: int, epoch: int, relation: int) -> None:
        path = f"{attempt.directory}/0.parquet"
        file = StagedFile(relation, attempt.id, "log", path, 1, 1)
        commit = EpochCommit(
            term.graph, term.term, Epoch(prev), Epoch(epoch), (attempt.id,), (file,)
        )
        commit_epoch(self.place.store, commit, failpoint=lambda _: None, name="tick")

    def state(self, attempt: Attempt) -> str:
        found = self.place.store._connection().execute(
            "SELECT state FROM attempts WHERE id = %s", (attempt.id,)
        )
        return str(found.fetchall()[0]["state"])

    def collect(self, *, unlisted_s: float = 900, zombie_s: float = 3600) -> int:
        return self.collector.collect(self.place.pipeline, unlisted_s=unlisted_s, zombie_s=zombie_s)

    def files(self, attempt: Attempt) -> int:
        return len(self.lake.list(attempt.directory))


@pytest.fixture
def yard(place: Place, lake: Lake) -> Yard:
    return Yard(place, lake)


def test_an_open_attempt_of_this_term_is_left_alone(yard: Yard) -> None:
    attempt = yard.attempt(yard.owned())
    assert yard.collect(zombie_s=0) == 0
    assert yard.state(attempt) == "open" and yard.files(attempt) == 1


def test_attempts_of_an_old_term_are_retired_then_removed(yard: Yard) -> None:
    old = yard.attempt(yard.owned(), files=2)
    new = take_over(yard.place.store, yard.place.main, owner="other")
    current = yard.attempt(new)
    assert yard.collect() == 2
    assert yard.state(old) == "retired" and yard.files(old) == 0
    assert yard.state(current) == "open" and yard.files(current) == 1


def test_a_failed_attempt_goes_though_its_term_goes_on(yard: Yard) -> None:
    attempt = yard.attempt(yard.owned())
    yard.place.store.execute("fail_attempt", attempt=attempt.id)
    assert yard.collect() == 1
    assert yard.state(attempt) == "retired"


def test_a_committed_attempt_stays(yard: Yard) -> None:
    term, table = yard.owned(), yard.place.create("t", SCHEMA)
    attempt = yard.attempt(term, files=1)
    yard.commit(term, attempt, 0, 10, table.id)
    take_over(yard.place.store, yard.place.main, owner="other")
    assert yard.collect(unlisted_s=0, zombie_s=0) == 0
    assert yard.state(attempt) == "committed" and yard.files(attempt) == 1
    # Its own process giving it up too late changes nothing.
    yard.place.store.execute("fail_attempt", attempt=attempt.id)
    assert yard.collect() == 0 and yard.state(attempt) == "committed"


def test_a_retired_attempt_cannot_be_committed_in_between(yard: Yard) -> None:
    """The zombie's commit comes after `retire` and before its files are deleted."""
    term, table = yard.owned(), yard.place.create("t", SCHEMA)
    attempt = yard.attempt(term)
    yard.place.store.execute("fail_attempt", attempt=attempt.id)

    def failpoint(name: str) -> None:
        if name == "collect.after_retire":
            with pytest.raises(AttemptRetired):
                yard.commit(term, attempt, 0, 10, table.id)

    collector = Collector(yard.place.store, yard.lake, failpoint)
    assert collector.collect(yard.place.pipeline) == 1
    assert yard.place.store.query("select_listing", relation=table.id)[0]["files"] == []


def test_a_zombie_that_still_writes_is_collected_again(yard: Yard) -> None:
    old = yard.attempt(yard.owned())
    take_over(yard.place.store, yard.place.main, owner="other")
    assert yard.collect(zombie_s=3600) == 1
    yard.lake.write(f"{old.directory}/late.parquet", ROWS)
    assert yard.collect(zombie_s=3600) == 1
    assert yard.files(old) == 0
    assert yard.collect(zombie_s=3600) == 0 and yard.state(old) == "retired", "too young to forget"
    assert yard.collect(zombie_s=0) == 0 and yard.state(old) == "collected"


def test_another_pipeline_is_none_of_its_business(yard: Yard, lake: Lake) -> None:
    other = Yard(new_place(yard.place.store), lake)
    theirs = other.attempt(other.owned())
    take_over(yard.place.store, other.place.main, owner="x")
    assert yard.collect(zombie_s=0) == 0
    assert other.state(theirs) == "open" and other.files(theirs) == 1


def test_replaced_files_live_on_for_a_while(yard: Yard) -> None:
    term, table = yard.owned(), yard.place.create("t", SCHEMA)
    first, second = yard.attempt(term), yard.attempt(term)
    yard.commit(term, first, 0, 10, table.id)
    yard.commit(term, second, 10, 20, table.id)
    (row, _) = yard.place.store.query("select_listing", relation=table.id)[0]["files"]
    yard.place.store.execute("unlist_files", files=[row["id"]])
    assert yard.collect(unlisted_s=900) == 0 and yard.files(first) == 1
    assert yard.collect(unlisted_s=0) == 1
    assert yard.files(first) == 0 and yard.files(second) == 1
    assert yard.collect(unlisted_s=0) == 0, "removed once"


def test_the_steps_stand_around_each_effect(yard: Yard) -> None:
    yard.attempt(yard.owned())
    take_over(yard.place.store, yard.place.main, owner="other")
    yard.collect()
    assert yard.steps == [
        "collect.before_retire",
        "collect.after_retire",
        "collect.before_delete",
        "collect.after_delete",
    ]


def test_a_term_that_is_over_cannot_commit_what_is_not_yet_retired(yard: Yard) -> None:
    term, table = yard.owned(), yard.place.create("t", SCHEMA)
    attempt = yard.attempt(term)
    take_over(yard.place.store, yard.place.main, owner="other")
    with pytest.raises(TermOver):
        yard.commit(term, attempt, 0, 10, table.id)


@pytest.mark.parametrize("step", ["collect.after_retire", "collect.before_delete"])
def test_a_zombie_collector_deletes_nothing_of_those_who_came_after(yard: Yard, step: str) -> None:
    """It wakes after another has collected all it meant to, and new attempts have committed."""
    table = yard.place.create("t", SCHEMA)
    old = yard.attempt(yard.owned(), files=2)
    term = take_over(yard.place.store, yard.place.main, owner="heir")
    committed, writing = yard.attempt(term), yard.attempt(term)
    slept = []

    def sleep(name: str) -> None:
        if name == step and not slept:
            slept.append(name)
            assert yard.collect(zombie_s=0) == 2 and yard.files(old) == 0
            yard.collect(zombie_s=0)
            yard.commit(term, committed, 0, 10, table.id)

    zombie = Collector(yard.place.store, yard.lake, sleep)
    zombie.collect(yard.place.pipeline, unlisted_s=0, zombie_s=0)
    assert slept and yard.files(committed) == yard.files(writing) == 1
    assert yard.state(writing) == "open" and yard.state(committed) == "committed"
