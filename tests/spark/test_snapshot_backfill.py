"""A view built beside its running table: in waves, resumed, then caught up."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from ops.aggregate.view_executor import ViewExecutor
from ops.backfill.snapshot_backfill.executor import SnapshotBackfillExecutor, VnodeDone
from ops.backfill.snapshot_backfill.phase import Phase
from ops.barrier_worker.lease import LeaseKeeper, acquire, take_over
from ops.common.epoch import Epoch
from ops.common.errors import TermOver
from ops.common.vnode import vnode_of
from resources.clock import ManualClock
from resources.lake import Lake
from tests.support.control import Place
from tests.support.live_table import LiveTable, pass_by
from tests.support.live_view import UPSTREAM, VIEW, create_relations, row
from tests.support.model import Rows, Wish, recompute


class CutShort(Exception):
    """What a crash is in this process."""


class Building:
    """A table with rows in every vnode and a view on it that nobody has begun."""

    def __init__(self, place: Place, lake: Lake, spark: SparkSession) -> None:
        self.place, self.spark, self.lake = place, spark, lake
        self.table = LiveTable.create(place, lake, spark, UPSTREAM, graph=place.main)
        rows: Rows = {(n,): row(n, "abc"[n % 3], wide="0.5", mid=n) for n in range(40)}
        self.table.put_snapshot(rows, files=2)
        self.table.commit([wish(n, "put", region=None) for n in range(5)])
        self.snapshot = self.table.now
        self.output, self.state = create_relations(place, self.table.relation, "WaitingForUpstream")

    def run(self, vnodes: set[int], failpoint: Callable[[str], None] = pass_by) -> list[VnodeDone]:
        """Run as a process with a term of its own would; return what it reported."""
        take_over(self.place.store, self.output.graph, owner="gone")
        term = acquire(self.place.store, self.output.graph, owner="me", seconds=60)
        view = ViewExecutor(
            VIEW, self.output, (self.state,), self.table.relation, self.spark, self.lake, failpoint
        )
        with LeaseKeeper(self.place.store, term, seconds=60) as keeper:
            executor = SnapshotBackfillExecutor(
                view, self.place.main, self.place.store, ManualClock(), failpoint, keeper
            )
            return list(executor.run(vnodes))

    def rows_in(self, vnode: int) -> int:
        keys = self.table.history[self.snapshot]
        columns = UPSTREAM.key_columns
        return sum(vnode_of(key, columns, 4) == vnode for key in keys)

    def phase(self) -> str:
        return self.place.relation("v").state

    def shown(self, epoch: Epoch) -> Rows:
        table = self.table
        reader = LiveTable(
            self.place,
            self.lake,
            self.spark,
            self.output,
            table.term,
            {0: {}, epoch: {}},
        )
        return reader.read(epoch)[epoch]

    def expected(self, epoch: Epoch) -> Rows:
        return recompute(VIEW, UPSTREAM, self.table.history[epoch].values())


def wish(number: int, act: str, region: str | None = "new") -> Wish:
    values = row(number, region, wide="1E-18", mid=7)[1:]
    return Wish((number,), (number,), values, act, False)


@pytest.fixture
def building(
    place: Place, lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Building:
    # About ten rows a vnode, so that each is a wave of its own.
    monkeypatch.setattr("ops.backfill.snapshot_backfill.executor.ROWS_PER_WAVE", 11)
    return Building(place, lake, spark)


def test_in_waves_resumed_and_caught_up(building: Building) -> None:
    done = building.run({1, 3})
    assert [(d.vnode, d.rows) for d in done] == [(v, building.rows_in(v)) for v in (1, 3)]
    assert building.phase() == Phase.SNAPSHOT
    assert building.place.relation("v").snapshot_epoch == building.snapshot
    # The table goes on; what is merged away meanwhile is not what the view still reads.
    for number in (3, 20, 41):
        building.table.commit([wish(number, "put"), wish(number + 1, "delete")])
    building.table.merge()
    # Cut short in the first of the waves that are left: nothing of it counts.
    with pytest.raises(CutShort):
        building.run({0, 1, 2, 3}, cut_at("snapshot.before_commit"))
    assert finished(building) == {1, 3}
    done = building.run({0, 1, 2, 3})
    assert sorted((d.vnode, d.rows) for d in done) == [(v, building.rows_in(v)) for v in range(4)]
    assert sum(d.rows for d in done) == 40
    assert building.phase() == Phase.FINISHING
    now = building.table.now
    assert building.place.committed(building.output.graph) == now
    assert building.shown(now) == building.expected(now)
    pins = building.place.store.query("select_pins", relation=building.table.relation.id)
    assert now in {pin["epoch"] for pin in pins}, "the rest of the log is kept for the view"


def test_all_at_once_and_cut_short_before_the_output(
    building: Building, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.backfill.snapshot_backfill.executor.ROWS_PER_WAVE", 10**6)
    commits: list[str] = []

    def second_commit(name: str) -> None:
        commits.append(name)
        if commits.count("snapshot.before_commit") == 2:
            raise CutShort(name)

    with pytest.raises(CutShort):
        building.run({0, 1, 2, 3}, second_commit)
    assert finished(building) == {0, 1, 2, 3} and building.phase() == Phase.SNAPSHOT
    done = building.run({2})
    assert [(d.vnode, d.rows) for d in done] == [(2, building.rows_in(2))], "read before"
    assert building.phase() == Phase.FINISHING
    assert building.shown(building.snapshot) == building.expected(building.snapshot)


def test_a_term_that_is_over_commits_no_wave(building: Building) -> None:
    def overtaken(name: str) -> None:
        if name == "snapshot.before_commit":
            take_over(building.place.store, building.output.graph, owner="other")

    with pytest.raises(TermOver):
        building.run({0}, overtaken)
    assert finished(building) == set()


def cut_at(point: str) -> Callable[[str], None]:
    def failpoint(name: str) -> None:
        if name == point:
            raise CutShort(name)

    return failpoint


def finished(building: Building) -> set[int]:
    rows = building.place.store.query("select_vnode_progress", relation=building.output.id)
    return {r["vnode"] for r in rows if r["is_finished"]}
