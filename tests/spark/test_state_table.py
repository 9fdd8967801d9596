"""A table read through its log, merges and folds equals the dictionary it was made from."""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import BOOL, INT8, TEXT, Column, DataType, Kind, Schema
from ops.common.table.collect import Collector
from ops.common.table.log import log_table
from ops.common.table.net import Key, net_changes
from ops.common.table.pins import Pinned, pinned
from ops.common.table.vacuum import Vacuum
from resources.delta import Delta
from resources.lake import Lake
from tests.support.control import Place
from tests.support.live_table import LiveTable, pass_by
from tests.support.model import Wish, difference, happen, key_of, wishes

SCHEMA = Schema(
    (
        Column("id", INT8),
        Column("part", TEXT),
        Column("money", DataType(Kind.NUMERIC, 12, 2)),
        Column("day`of", DataType(Kind.DATE)),
    ),
    ("id", "part"),
)
KEYS: st.SearchStrategy[Key] = st.tuples(
    st.sampled_from([None, 0, 1, -(2**63)]), st.sampled_from([None, "", "a"])
)
VALUES: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, Decimal("0.00"), Decimal("-1.50")]),
    st.sampled_from([None, date(1, 1, 1), date(2024, 2, 29)]),
)
# A key of the types that Spark, Arrow and Delta each have in a way of their own.
ODD = Schema(
    (
        Column("flag", BOOL),
        Column("amount", DataType(Kind.NUMERIC, 38, 18)),
        Column("raw", DataType(Kind.BYTEA)),
        Column("at", DataType(Kind.TIMESTAMPTZ)),
        Column("v", INT8),
    ),
    ("flag", "amount", "raw", "at"),
)
ODD_KEYS: st.SearchStrategy[Key] = st.tuples(
    st.sampled_from([None, True]),
    st.sampled_from([None, Decimal("0.5")]),
    st.sampled_from([b"", b"\xff"]),
    st.sampled_from([None, datetime(2024, 3, 31, 2, 30, tzinfo=UTC)]),
)
ODD_VALUES: st.SearchStrategy[Row] = st.tuples(st.sampled_from([None, 1, 2]))
STEPS = (
    *("commit", "commit", "commit", "commit", "stage", "stage", "abort"),
    *("merge", "fold", "fold", "pin", "pin", "unpin", "collect", "collect"),
)

# Shrinking would run Spark hundreds of times; the seed is printed instead.
LIVES = settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.fixture
def create(place: Place, lake: Lake, spark: SparkSession) -> Callable[[], LiveTable]:
    return lambda: LiveTable.create(place, lake, spark, SCHEMA)


@LIVES
@given(data=st.data())
def test_random_histories(
    place: Place, lake: Lake, spark: SparkSession, data: st.DataObject
) -> None:
    """With before images, or with some that must be looked up; nothing is kept for its own sake."""
    schema, keys, values = data.draw(
        st.sampled_from([(SCHEMA, KEYS, VALUES), (ODD, ODD_KEYS, ODD_VALUES)])
    )
    full = st.just(True) if data.draw(st.booleans()) else st.booleans()
    wanted = wishes(keys, values, full=full, least=2, most=6)
    with History(LiveTable.create(place, lake, spark, schema)) as life:
        life.table.put_snapshot(happen({}, data.draw(wanted))[1], files=2)
        life.table.commit(data.draw(wanted))
        for step in data.draw(st.permutations(STEPS)):
            match step:
                case "commit" | "stage":
                    getattr(life, step)(data.draw(wanted))
                case "pin":
                    life.pin(data.draw(st.integers(0, 2)))
                case _:
                    getattr(life, step)()
        life.check()


class History:
    """A table with readers, and with writers that have not committed."""

    def __init__(self, table: LiveTable) -> None:
        table.keep_s = 0
        self.table, self.store = table, table.place.store
        self.readers: list[tuple[ExitStack, Pinned]] = []
        self.open: list[tuple[int, str]] = []
        self.aborted: list[str] = []

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: object) -> None:
        for stack, _held in self.readers:
            stack.close()

    def commit(self, wanted: list[Wish]) -> None:
        self.table.commit(wanted)

    def stage(self, wanted: list[Wish]) -> None:
        """Write what a commit would write, and do not come to it."""
        attempt, schema = self.table.attempt(), self.table.relation.schema
        changes, _ = happen(self.table.history[self.table.now], wanted)
        net = net_changes(changes, key_of(schema))
        log = log_table(net, schema, vnode_count=4, epoch=self.table.next)
        path = f"{attempt.directory}/log.parquet"
        self.table.lake.write(path, log)
        self.open.append((attempt.id, path))

    def abort(self) -> None:
        if self.open:
            attempt, path = self.open.pop(0)
            self.store.execute("fail_attempt", attempt=attempt)
            self.aborted.append(path)

    def merge(self) -> None:
        self.table.merge()

    def fold(self) -> None:
        self.table.fold()

    def pin(self, back: int) -> None:
        epochs = sorted(self.table.readable(), reverse=True)
        epoch = Epoch(epochs[min(back, len(epochs) - 1)])
        stack, relation = ExitStack(), self.table.relation
        held = pinned(self.store, [relation], main_graph=self.table.term.graph, as_of=epoch)
        self.readers.append((stack, stack.enter_context(held)))

    def unpin(self) -> None:
        if self.readers:
            self.readers.pop(0)[0].close()

    def collect(self) -> None:
        table = self.table
        Collector(self.store, table.lake, pass_by).collect(table.place.pipeline, unlisted_s=0)
        Vacuum(self.store, table.lake, Delta(table.lake), pass_by).vacuum(table.relation, grace_s=0)

    def check(self) -> None:
        """After a last collection, what was opened before it reads as it did when it was opened."""
        self.collect()
        for _, held in self.readers:
            assert (
                self.table.opened(held.contents[self.table.relation.id])
                == (self.table.history[held.epoch])
            )
        there = set(self.table.lake.list(self.table.relation.path))
        assert {path for _, path in self.open} <= there, "a writer that lives has lost a file"
        assert not there & set(self.aborted)
        check(self.table)


def check(table: LiveTable) -> None:
    readable = {e: table.history[e] for e in table.readable()}
    assert table.read() == readable
    epochs = sorted(readable)
    some = sorted({key for rows in readable.values() for key in rows}, key=repr)[:5]
    absent: Key = (77, "none") if table.relation.schema == SCHEMA else (False, None, b"no", None)
    keys: list[Key] = [*some, absent]
    for epoch, found in table.lookup(keys, epochs[0], epochs[-1]).items():
        assert found == {key: readable[epoch][key] for key in keys if key in readable[epoch]}
    ranges = [*pairwise(epochs[-3:]), (epochs[0], epochs[-1])]
    moved = table.changes(*ranges)
    assert len(moved) >= 1
    for (after, upto), net in moved.items():
        assert net == difference(table.history[after], table.history[upto])


def put(key: Key, money: str, *, full: bool = True) -> Wish:
    return Wish(key, key, (Decimal(money), None), "put", full)


def test_a_log_supersedes_snapshot_rows(create: Callable[[], LiveTable]) -> None:
    """The event came first, the page that still has the old row was read later."""
    table = create()
    table.commit([put((1, "a"), "2.00"), put((2, "b"), "3.00")])
    gone = Wish((2, "b"), (2, "b"), (None, None), "delete", False)
    table.commit([gone])
    page = {(1, "a"): (1, "a", Decimal("1.00"), None), (3, "c"): (3, "c", None, None)}
    table.put_snapshot({**page, (2, "b"): (2, "b", Decimal("3.00"), None)})
    expected = {(1, "a"): (1, "a", Decimal("2.00"), None), (3, "c"): (3, "c", None, None)}
    assert table.read(table.now) == {table.now: expected}
    assert table.lookup([(1, "a"), (2, "b")], table.now)[table.now].keys() == {(1, "a")}
    table.fold()
    assert table.read(table.now) == {table.now: expected}


def test_a_key_that_came_and_went_is_no_change(create: Callable[[], LiveTable]) -> None:
    table = create()
    first = table.commit([put((1, "a"), "1.00")])
    gone = Wish((2, "b"), (2, "b"), (None, None), "delete", False)
    same = [put((1, "a"), "9.00"), put((1, "a"), "1.00", full=False)]
    last = table.commit([put((2, "b"), "5.00"), gone, *same])
    assert table.changes((first, last)) == {(first, last): {}}


def test_a_merge_that_a_pin_overtakes_is_dropped(create: Callable[[], LiveTable]) -> None:
    table = create()
    epochs = [table.commit([put((n, "a"), "1.00")]) for n in range(3)]

    def failpoint(name: str) -> None:
        if name == "merge.before_commit":
            table.pin(Epoch(epochs[1]))

    assert table.merge(failpoint) == 0
    assert len(table.files()) == 3
    assert table.merge() == 2, "up to the pin, or from it on"
    assert set(table.readable()) >= {epochs[1], epochs[2]}
    assert table.read(epochs[1]) == {epochs[1]: table.history[epochs[1]]}


def test_a_merge_that_a_fold_overtakes_is_dropped(create: Callable[[], LiveTable]) -> None:
    """An older pin keeps the files listed, so that only the new base tells the merge to stop."""
    table = create()
    first = table.commit([put((0, "a"), "1.00")])
    table.pin(first)
    table.merge()
    for number in (1, 2):
        table.commit([put((number, "a"), "1.00")])
    folded_to = Epoch(table.now - (1 << 16))

    def failpoint(name: str) -> None:
        if name == "merge.before_commit":
            table.folder().fold(table.relation, folded_to)

    assert table.merge(failpoint) == 0
    assert table.now in table.readable()
    assert table.read(table.now, first) == {e: table.history[e] for e in (table.now, first)}


def test_a_look_up_opens_only_the_files_its_keys_may_be_in(
    place: Place, lake: Lake, spark: SparkSession
) -> None:
    """The others are not there any more: nobody may miss them."""
    schema = Schema((Column("id", INT8), Column("v", TEXT)), ("id",))
    table = LiveTable.create(place, lake, spark, schema)
    for low in (0, 1000, 2000):
        table.commit([Wish((low + n,), (low + n,), (f"{low}",), "put", True) for n in range(3)])
    before = table.now
    blind = Wish((1001,), (1001,), ("new",), "put", False)
    table.commit([blind])
    far = [f for f in table.files() if f.key_ranges is not None and f.key_ranges[0][0] != 1000]
    for file in far:
        if file.epoch <= before:
            lake.delete(file.path)
    assert table.changes((before, table.now)) == {
        (before, table.now): {(1001,): ((1001, "1000"), (1001, "new"))}
    }
