"""A table read through its log, merges and folds equals the dictionary it was made from."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import INT8, TEXT, Column, DataType, Kind, Schema
from ops.common.table.net import Key
from resources.lake import Lake
from tests.support.control import Place
from tests.support.live_table import LiveTable
from tests.support.model import Wish, difference, happen, wishes

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
FULL = wishes(KEYS, VALUES, full=st.just(True), most=6)
MIXED = wishes(KEYS, VALUES, most=6)


Step = list[Wish] | str


def steps(wanted: st.SearchStrategy[list[Wish]]) -> st.SearchStrategy[list[Step]]:
    """At least two commits, a merge and a fold somewhere, and commits after them.

    `truncate` says that the commit that follows begins with one.
    """
    cut = st.sampled_from([[], [], ["truncate"]])
    one: st.SearchStrategy[list[Step]] = st.builds(lambda a, b: [*a, b], cut, wanted)
    some = st.lists(one, min_size=1, max_size=2).map(
        lambda many: [s for part in many for s in part]
    )
    act = st.permutations(["merge", "fold"])
    return st.builds(lambda a, b, c, d: [*a, d[0], *b, d[1], *c], some, some, some, act)


# Shrinking would run Spark hundreds of times; the seed is printed instead.
LIVES = settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.fixture
def create(place: Place, lake: Lake, spark: SparkSession) -> Callable[[], LiveTable]:
    def make() -> LiveTable:
        table = LiveTable.create(place, lake, spark, SCHEMA)
        table.large = frozenset({2})
        return table

    return make


@LIVES
@given(MIXED, st.booleans().flatmap(lambda full: steps(FULL if full else MIXED)))
def test_random_histories(
    create: Callable[[], LiveTable], snapshot: list[Wish], life: list[Step]
) -> None:
    """With before images, or with some that must be looked up and values that are not sent."""
    check(lived(create(), snapshot, life))


def lived(table: LiveTable, snapshot: list[Wish], life: list[Step]) -> LiveTable:
    table.put_snapshot(happen({}, snapshot)[1], files=2)
    start = table.now
    truncates = False
    for step in life:
        assert not (truncates and isinstance(step, str))
        if step == "merge":
            table.merge()
        elif step == "fold":
            # What the oldest reader holds stays readable across the fold.
            table.pin(start)
            table.fold()
        elif isinstance(step, list):
            start = table.now
            table.commit(step, truncates=truncates)
        truncates = step == "truncate"
    return table


def check(table: LiveTable) -> None:
    readable = {e: table.history[e] for e in table.readable()}
    assert table.read() == readable
    keys: list[Key] = [(None, None), (0, "a"), (None, "a"), (1, None), (77, "none")]
    epochs = sorted(readable)
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


def test_a_truncate_ends_what_was_before_it(create: Callable[[], LiveTable]) -> None:
    """Without a row after it, across a merge and as the first fold of all."""
    table = create()
    page = {(1, "a"): (1, "a", Decimal("1.00"), None)}
    table.put_snapshot(page)
    first = table.commit([put((2, "a"), "2.00")])
    table.pin(first)
    empty = table.commit([], truncates=True)
    last = table.commit([put((1, "a"), "1.00"), put((3, "a"), "3.00", full=False)])
    check(table)
    assert table.changes((empty, last))[empty, last].keys() == {(1, "a"), (3, "a")}
    # What a page that was read before brings after it counts for nothing.
    table.put_snapshot({(9, "z"): (9, "z", None, None)})
    del table.history[table.now][9, "z"]
    for merged in (False, True):
        assert not merged or table.merge() == 2
        found = table.read(last, table.now)
        assert found and all(rows == table.history[epoch] for epoch, rows in found.items())
    table.fold()
    table.commit([], truncates=True)
    assert table.read(table.now) == {table.now: {}}
    table.fold()
    assert table.read(table.now) == {table.now: {}}


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
