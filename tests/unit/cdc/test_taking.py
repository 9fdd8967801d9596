"""A repair is taken in less the keys that events came for; in Arrow as in dictionaries."""

from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.verify.settled import still_wrong
from ops.backfill.cdc.verify.taking import (
    MAX_ROWS,
    PendingRepair,
    RepairTaker,
    Wanted,
    looked_up,
    not_named,
)
from ops.barrier_worker.commit import list_file, open_attempt
from ops.barrier_worker.lease import acquire
from ops.barrier_worker.reports import TakenRepair
from ops.common.barrier import Attempt, Barrier, BarrierKind
from ops.common.epoch import Epoch, EpochPair
from ops.common.schema import INT8, TEXT, Column, DataType, Kind, Schema
from ops.common.table.log import log_table
from ops.common.table.net import Key, Net, NetRow
from ops.common.table.relation import Relation, StagedFile
from resources.control_store import ControlStore
from resources.lake import Lake
from tests.support.control import SCHEMA, new_place

DAY = DataType(Kind.DATE)
PAIRED = Schema((Column("a", TEXT), Column("b", DAY), Column("v", INT8)), ("a", "b"))
KEYS: st.SearchStrategy[Key] = st.tuples(st.sampled_from(["", "x", "ß"]), st.integers(-2, 2))


def net_of(keys: set[Key]) -> Net:
    return {key: NetRow(True, None, (*key, 1)) for key in keys}


def log_of(net: Net, schema: Schema = PAIRED) -> pa.Table:
    return log_table(net, schema, vnode_count=4, epoch=Epoch(7))


@given(st.sets(KEYS), st.lists(st.sets(KEYS), max_size=3))
def test_the_rows_left_are_those_of_the_law(staged: set[Key], named: list[set[Key]]) -> None:
    chunks = [c for keys in named for c in log_of(net_of(keys))["key"].chunks]
    kept = not_named(log_of(net_of(staged)), chunks, PAIRED)
    expected = still_wrong(net_of(staged), set().union(*named))
    assert kept == log_of(expected)


def test_what_was_before_is_left_to_be_looked_up() -> None:
    net: Net = {(1,): NetRow(True, (1, "a"), (1, "b")), (2,): NetRow(True, None, (2, "c"))}
    assert looked_up(net) == {
        (1,): NetRow(False, None, (1, "b")),
        (2,): NetRow(False, None, (2, "c")),
    }


class Bench:
    """A live table with one log file per epoch from 1 on, and a taker."""

    def __init__(self, store: ControlStore, folder: Path) -> None:
        self.place = new_place(store)
        self.relation: Relation = self.place.create("orders", SCHEMA)
        self.lake = Lake(str(folder))
        self.attempt = self._attempt(self.place.main)
        self.steps: list[str] = []
        self.taker = RepairTaker(self.place.pipeline, store, self.lake, self.steps.append)

    def _attempt(self, graph: str) -> Attempt:
        term = acquire(self.place.store, graph, owner="me", seconds=60)
        return open_attempt(self.place.store, graph, term.term, self.place.pipeline)

    def log(self, after: int, epoch: int, *keys: int) -> None:
        path = f"{self.attempt.directory}/{epoch}.parquet"
        self._write(path, *keys)
        file = StagedFile(self.relation.id, self.attempt.id, "log", path, len(keys), 1)
        list_file(self.place.store, file, after=Epoch(after), epoch=Epoch(epoch))

    def repair(self, number: int, since: int, *keys: int, rows: int = 1) -> PendingRepair:
        path = f"{self.attempt.directory}/difference-{number}.parquet"
        self._write(path, *keys)
        return PendingRepair(number, path, Epoch(since), rows)

    def _write(self, path: str, *keys: int) -> None:
        net: Net = {(k,): NetRow(True, None, (k, "v")) for k in keys}
        self.lake.write(path, log_of(net, SCHEMA))

    def take(
        self, *repairs: PendingRepair, own: tuple[int, ...] = ()
    ) -> tuple[dict[str, list[int]], list[TakenRepair]]:
        barrier = Barrier(
            EpochPair(Epoch(10), Epoch(9)), BarrierKind.CHECKPOINT, None, self.attempt
        )
        wanted = Wanted(True, repairs)
        files, taken = self.taker.take(self.relation, wanted, [(k,) for k in own], barrier)
        found = {}
        for file in files:
            table = self.lake.read(file.path)
            ids = [key["id"] for key in table.column("key").to_pylist()]
            assert set(table.column("epoch").to_pylist()) == {9} and file.rows == len(ids)
            assert file.key_ranges is not None and file.key_ranges[0][0] == min(ids)
            found[Path(file.path).stem] = ids
        return found, taken


def test_later_events_win_from_the_log_and_from_the_epoch(
    shared: ControlStore, tmp_path: Path
) -> None:
    bench = Bench(shared, tmp_path)
    bench.log(0, 3, 1)
    bench.log(3, 5, 2)
    found, taken = bench.take(bench.repair(1, 3, 1, 2, 3, 4), own=(4,))
    # Key 1 was named before the repair's epoch: that it differs is what was found.
    assert found == {"orders-repair-1": [1, 3]}
    assert taken == [TakenRepair(1, bench.relation.id, 2)]
    assert bench.steps == ["repair.before_log_write", "repair.after_log_write"]
    assert bench.take(bench.repair(1, 3, 2)) == ({}, [TakenRepair(1, bench.relation.id, 0)])


def test_a_merged_log_names_more_and_a_lost_pin_all(shared: ControlStore, tmp_path: Path) -> None:
    bench = Bench(shared, tmp_path)
    bench.log(3, 8, 2)
    assert bench.take(bench.repair(1, 3, 1, 2))[0] == {"orders-repair-1": [1]}
    assert bench.take(bench.repair(2, 5, 1)) == ({}, [TakenRepair(2, bench.relation.id, None)])


def test_rows_of_another_form_do_not_fit(shared: ControlStore, tmp_path: Path) -> None:
    bench = Bench(shared, tmp_path)
    repair = bench.repair(1, 0, 1)
    bench.lake.write(repair.path, log_of(net_of({("x", 1)})))
    assert bench.take(repair) == ({}, [TakenRepair(1, bench.relation.id, None)])


def test_an_epoch_takes_only_so_many_rows(shared: ControlStore, tmp_path: Path) -> None:
    bench = Bench(shared, tmp_path)
    repairs = [bench.repair(n, 0, n, rows=MAX_ROWS // 2) for n in (1, 2, 3)]
    assert [t.repair for t in bench.take(*repairs)[1]] == [1, 2]
