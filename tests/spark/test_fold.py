"""The base is what the table was at its epoch, whatever is cut short and whoever comes too late."""

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ops.barrier_worker.lease import acquire
from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.errors import EpochGone, TermOver
from ops.common.schema import BOOL, INT8, NUMERIC, TEXT, Column, DataType, Kind, Schema
from ops.common.table.collect import Collector
from ops.common.table.fold import UnexpectedVersion, fold_point
from ops.common.table.net import Key, Net, NetRow
from ops.common.table.pins import pinned
from ops.common.table.vacuum import Vacuum
from ops.planner.apply import ALL, maintenance_graph
from resources.delta import Delta
from resources.lake import Lake
from resources.spark import close_session, new_session
from tests.support.control import Place
from tests.support.live_table import STEP, LiveTable, pass_by, values
from tests.support.model import Rows, Wish

SCHEMA = Schema(
    (
        Column("id", INT8),
        Column("region", TEXT),
        Column("money", DataType(Kind.NUMERIC, 12, 2)),
        Column("wide", NUMERIC),
        Column("flag", BOOL),
        Column("small", DataType(Kind.INT2)),
        Column("day", DataType(Kind.DATE)),
        Column("at", DataType(Kind.TIMESTAMP)),
        Column("at_z", DataType(Kind.TIMESTAMPTZ)),
    ),
    ("id",),
)


class CutShort(Exception):
    """What a crash is in this process."""


@pytest.fixture
def table(place: Place, lake: Lake, spark: SparkSession) -> LiveTable:
    """Rows 1 to 4 from two pages, then an epoch that changes 2, drops 3 and adds 5."""
    made = LiveTable.create(place, lake, spark, SCHEMA)
    made.put_snapshot({(n,): row(n, "page") for n in range(1, 5)}, files=2)
    made.commit([put(2, "log"), drop(3), put(5, "log")])
    return made


def row(number: int, region: str | None) -> Row:
    return (
        number,
        region,
        Decimal(number) + Decimal("0.10"),
        Decimal("12345678901234567890.000000000000000001"),
        None if number == 4 else True,
        -number,
        date(1, 1, 1),
        datetime(1, 1, 1, 0, 0, 0, 1),
        datetime(2024, 3, 31, 2, 30, tzinfo=UTC),
    )


def put(number: int, region: str | None) -> Wish:
    return Wish((number,), (number,), row(number, region)[1:], "put", False)


def drop(number: int) -> Wish:
    return Wish((number,), (number,), row(number, None)[1:], "delete", False)


def stop_at(name: str) -> Callable[[str], None]:
    def failpoint(reached: str) -> None:
        if reached == f"fold.{name}":
            raise CutShort(name)

    return failpoint


def plain(table: LiveTable, version: int | None = None) -> Rows:
    """Return the base as any Delta reader sees it."""
    reader = table.spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    found = [
        values(r) for r in reader.load(table.lake.uri(table.relation.path)).toArrow().to_pylist()
    ]
    rows: Rows = {r[:1]: r for r in found if r is not None}
    assert len(rows) == len(found), "a key twice"
    return rows


def test_folds_and_what_lies_between_them(table: LiveTable) -> None:
    first = table.fold()
    assert first is not None and first.epoch == table.now
    assert plain(table, first.version) == table.history[table.now]
    assert table.files() == [], "the base stands for all of them"
    stamped = Delta(table.lake).latest(table.relation.path)
    assert stamped is not None and stamped[0] == first.version
    assert stamped[1] is not None and stamped[1].endswith(f"epoch {table.now}")
    with pytest.raises(EpochGone) as gone:
        table.contents(table.now - STEP)
    assert gone.value.nearest == table.now
    assert table.fold() is None, "it is there already"
    middle = table.commit([put(6, None)])
    last = table.commit([drop(1), put(6, "again")])
    second = table.fold()
    assert second is not None and second.version > first.version
    assert plain(table, second.version) == table.history[last]
    # The log between the two bases is gone: the older base must not stand in for it.
    with pytest.raises(EpochGone):
        table.contents(middle)
    assert table.read(first.epoch) == {first.epoch: table.history[first.epoch]}
    # A key that came and went changes nothing in Delta, and is folded all the same.
    table.commit_net({(99,): NetRow(False, None, None)}, table.history[last])
    third = table.fold()
    assert third is not None and third.epoch == table.now
    assert plain(table, third.version) == table.read(table.now)[table.now] == table.history[last]


def test_a_pinned_epoch_before_the_first_base_stays_readable(table: LiveTable) -> None:
    before = Epoch(table.now - STEP)
    table.pin(before)
    table.fold()
    table.commit([put(7, "late")])
    table.fold()
    assert table.read(before, table.now) == {e: table.history[e] for e in (before, table.now)}


def test_a_base_out_of_order_is_sorted(
    place: Place, lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pages that share their keys' places become files that do not; no row changes."""
    monkeypatch.setattr("ops.common.table.fold.SORT_EVERY", 1)
    table = LiveTable.create(place, lake, spark, SCHEMA)
    table.put_snapshot({(n,): row(n, "page") for n in range(1, 9)}, files=2)
    table.fold()
    table.commit([put(1, "log")])
    table.pin(table.now, owner="fold")
    base = replace(table.folder(), sort_bytes=0).fold(table.relation, table.now)
    assert base is not None
    stamped = Delta(lake).latest(table.relation.path)
    assert stamped is not None and stamped[0] == base.version
    assert stamped[1] is not None and stamped[1].endswith(f"epoch {table.now}")
    [file] = lake.version_files(table.relation.path, base.version, "id")
    with lake.parquet(file.path) as opened:
        assert opened.read(columns=["id"])["id"].to_pylist() == [*range(1, 9)]
    assert plain(table, base.version) == table.history[table.now]
    table.commit([put(9, "log"), drop(1)])
    again = table.fold()
    assert again is not None and again.version == base.version + 1, "in order it stays as it is"
    assert table.read(table.now) == {table.now: table.history[table.now]}


@pytest.mark.parametrize("first", ["live", "fold"])
def test_a_table_goes_live_beside_its_first_fold(
    place: Place, lake: Lake, spark: SparkSession, first: str
) -> None:
    """Either the fold waits for the commit and takes the table, or it leaves it for the next."""
    store, told = place.store, list[tuple[Epoch, list[str]]]()
    table = LiveTable.create(place, lake, spark, SCHEMA, graph=place.main)
    store.execute("set_relation_state", relation=table.relation.id, state="CatchingUp", why=None)
    table.put_snapshot({(1,): row(1, "page")})
    everything = maintenance_graph(place.pipeline, ALL)
    store.execute("ensure_graph", graph=everything, pipeline=place.pipeline, kind="maintenance")
    term = acquire(store, everything, owner="folder", seconds=600)

    def fold() -> None:
        point = fold_point(
            store, place.pipeline, main_graph=place.main, term=term, failpoint=pass_by
        )
        with point as (epoch, relations):
            told.append((epoch, [r.name for r in relations]))
            for relation in relations:
                table.folder().fold(relation, epoch)

    if first == "fold":
        fold()
        assert told == [(table.now, [])] and not table.listing().bases
    live = table.next
    with store.transaction() as tx:
        tx.query("lock_graph", graph=place.main)
        tx.execute(
            "advance_graph", graph=place.main, prev=table.now, epoch=live, term=table.term.term
        )
        tx.execute("set_relation_live", relation=table.relation.id, epoch=live)
        folding = threading.Thread(target=fold)
        folding.start()
        folding.join(0.3)
        assert folding.is_alive(), "it waits for the commit"
    folding.join()
    table.history[live] = table.history[table.now]
    assert told[-1] == (live, [table.relation.name])
    assert [b.epoch for b in table.listing().bases] == [live]
    assert table.read(live) == {live: table.history[live]}


def test_pages_without_a_log(place: Place, lake: Lake, spark: SparkSession) -> None:
    made = LiveTable.create(place, lake, spark, SCHEMA)
    assert made.fold() is None, "nothing is there to fold"
    made.put_snapshot({(1,): row(1, "page")})
    base = made.fold()
    assert base is not None and plain(made, base.version) == made.history[made.now]


def test_a_log_without_pages_and_with_null_keys(
    place: Place, lake: Lake, spark: SparkSession
) -> None:
    """The state of a view: never a snapshot file, and NULL is a group."""
    schema = Schema((Column("a", TEXT), Column("b", INT8), Column("n", INT8)), ("a", "b"))
    made = LiveTable.create(place, lake, spark, schema)
    keys: list[Key] = [(None, None), ("x", None), (None, 1)]
    rows: Rows = {key: (*key, 1) for key in keys}
    made.commit_net({k: NetRow(True, None, r) for k, r in rows.items()}, rows)
    made.fold()
    after: Rows = {(None, None): (None, None, 2), ("x", None): ("x", None, 1)}
    net: Net = {
        (None, None): NetRow(True, rows[None, None], after[None, None]),
        (None, 1): NetRow(True, rows[None, 1], None),
    }
    made.commit_net(net, after)
    made.fold()
    assert made.read(made.now) == {made.now: after}


@pytest.mark.parametrize("step", ["after_create", "after_delta"])
def test_cut_short_and_folded_again(table: LiveTable, step: str) -> None:
    with pytest.raises(CutShort):
        table.fold(stop_at(step))
    assert table.read(table.now) == {table.now: table.history[table.now]}
    base = table.fold()
    assert base is not None and plain(table, base.version) == table.history[table.now]
    assert table.read(table.now) == {table.now: table.history[table.now]}


def test_cut_short_and_folded_to_a_later_epoch(table: LiveTable) -> None:
    with pytest.raises(CutShort):
        table.fold(stop_at("after_delta"))
    table.commit([put(3, "back"), drop(2), put(5, "newer")])
    base = table.fold()
    assert base is not None and plain(table, base.version) == table.history[table.now]


def test_a_zombie_cannot_bring_old_rows_back(table: LiveTable, spark: SparkSession) -> None:
    """It has decided what to merge; by the time it does, others have folded to a later epoch."""
    session = new_session(spark)

    def others(name: str) -> None:
        if name == "fold.before_delta":
            table.commit([put(3, "back"), drop(2), drop(5)])
            table.fold()

    table.pin(table.now)
    zombie = replace(table.folder(others), spark=session)
    with pytest.raises(TermOver):
        zombie.fold(table.relation, table.now)
    close_session(session)
    assert plain(table) == table.history[table.now]
    assert table.read(table.now) == {table.now: table.history[table.now]}


def test_a_folder_whose_term_is_over_records_nothing(table: LiveTable) -> None:
    folder = table.folder(lambda name: name == "fold.before_record" and table.folder() and None)
    with pytest.raises(TermOver):
        folder.fold(table.relation, table.now)
    assert table.contents(table.now).base is None
    base = table.fold()
    assert base is not None and plain(table, base.version) == table.history[table.now]


def test_somebody_elses_commit_is_noticed(table: LiveTable) -> None:
    table.fold()
    table.spark.sql(f"DELETE FROM delta.`{table.lake.uri(table.relation.path)}` WHERE id = 1")
    table.commit([put(8, "x")])
    with pytest.raises(UnexpectedVersion, match="somebody else"):
        table.fold()
    assert table.read(table.now) == {table.now: table.history[table.now]}


def test_a_reader_outlasts_folds_merges_and_vacuum(table: LiveTable) -> None:
    """Nothing is kept for its own sake: what stays is what the reader holds."""
    table.keep_s = 0
    table.fold()
    assert vacuum(table) >= 1, "the page with row 2 or 3"
    held = table.commit([put(2, "held"), drop(4)])
    with pinned(table.place.store, [table.relation], main_graph=table.term.graph) as reader:
        assert reader.epoch == held
        contents = reader.contents[table.relation.id]
        for number in range(6, 10):
            table.commit([put(number, "x"), put(2, f"{number}")])
            table.merge()
            table.fold()
            vacuum(table)
        assert table.opened(contents) == table.history[held]
    table.commit([drop(2)])
    base = table.fold()
    assert base is not None and [b.epoch for b in table.listing().bases] == [base.epoch]
    assert vacuum(table) > 0, "what the reader held is let go"
    assert vacuum(table) == 0
    assert table.read(table.now) == {table.now: table.history[table.now]}
    assert plain(table, base.version) == table.history[table.now]
    named = Delta(table.lake).named_by(table.relation.path, base.version)
    # A MERGE leaves an empty file that no version ever names; after a day it is a stray.
    assert data_files(table) - named - unlisted(table) <= strays(table)
    for path in (
        young := table.relation.path + "/young.parquet",
        table.relation.path + "/old.parquet",
    ):
        table.lake.write(path, pa.table({"id": [1]}))
    for path in strays(table) - {young}:
        os.utime(table.lake.uri(path), (0, 0))
    assert vacuum(table) >= 1
    assert data_files(table) - named - unlisted(table) == {young}
    assert table.read(table.now) == {table.now: table.history[table.now]}


def test_what_a_reader_has_seen_outlasts_its_replacement(table: LiveTable) -> None:
    """Its epoch is the very one that is merged and folded to: no list needs its files."""
    table.keep_s = 0
    table.fold()
    table.commit([put(2, "one")])
    held = table.commit([put(2, "two"), drop(4)])
    vacuum(table)
    with pinned(table.place.store, [table.relation], main_graph=table.term.graph) as reader:
        contents = reader.contents[table.relation.id]
        assert table.merge() == 2
        collect(table)
        assert table.opened(contents) == table.history[held]
        base = table.fold()
        assert base is not None and [b.version for b in table.listing().bases] == [base.version]
        collect(table)
        assert vacuum(table) == 0
        assert table.opened(contents) == table.history[held]
    assert collect(table) > 0 and vacuum(table) > 0, "nobody reads it any more"
    assert table.read(held) == {held: table.history[held]}


def data_files(table: LiveTable) -> set[str]:
    found = table.lake.list(table.relation.path)
    return {path for path in found if path.endswith(".parquet") and "_delta_log" not in path}


def strays(table: LiveTable) -> set[str]:
    """Return the data files that no commit of the Delta table has ever named."""
    folder = Path(table.lake.uri(table.relation.path))
    text = "".join(p.read_text() for p in (folder / "_delta_log").glob("*.json"))
    return {p for p in data_files(table) if "/_attempts/" not in p and Path(p).name not in text}


def test_a_page_that_no_change_has_touched_stays(
    place: Place, lake: Lake, spark: SparkSession
) -> None:
    table = LiveTable.create(place, lake, spark, SCHEMA)
    table.keep_s = 0
    table.put_snapshot({(n,): row(n, "page") for n in range(1, 5)}, files=2)
    table.commit([put(2, "log")])
    base = table.fold()
    assert base is not None
    named = Delta(table.lake).named_by(table.relation.path, base.version)
    pages = {path for path in named if "/_attempts/" in path}
    assert len(pages) == 1, "of two, one has had a row changed"
    vacuum(table)
    assert pages <= data_files(table)
    assert table.read(table.now) == {table.now: table.history[table.now]}


def test_past_folds_are_readable_for_a_while(table: LiveTable) -> None:
    """All relations of a pipeline have these epochs in common, also one that did not change."""
    bases = [table.fold()]
    for number in (6, 7):
        table.commit([put(number, "x")])
        bases.append(table.fold())
    table.commit_files(table.attempt(), [])
    assert table.fold() is None, "nothing has changed"
    kept = [b.epoch for b in bases if b is not None]
    assert [b.epoch for b in table.listing().bases] == [table.now, *reversed(kept)]
    vacuum(table)
    found = table.read(*kept, table.now)
    assert found == {epoch: table.history[epoch] for epoch in (*kept, table.now)}


def vacuum(table: LiveTable) -> int:
    delta = Delta(table.lake)
    return Vacuum(table.place.store, table.lake, delta, pass_by).vacuum(table.relation, grace_s=0)


def collect(table: LiveTable) -> int:
    collector = Collector(table.place.store, table.lake, pass_by)
    return collector.collect(table.place.pipeline, unlisted_s=0)


def unlisted(table: LiveTable) -> set[str]:
    """Return the log files that are left to the collector."""
    rows = table.place.store.query(
        "select_removable_files", pipeline=table.place.pipeline, grace_seconds=-1
    )
    return {row["path"] for row in rows if row["path"].startswith(table.relation.path)}
