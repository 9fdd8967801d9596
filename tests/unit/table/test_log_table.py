"""What a log file holds is what was netted; an absent row is no row of NULLs."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import BOOL, INT8, TEXT, Column, DataType, Kind, Schema
from ops.common.table.log import DELETE, UPSERT, log_table
from ops.common.table.net import Key, Net, NetRow
from ops.common.vnode import vnode_of
from resources.lake import Lake

COLUMNS = (
    Column("id", INT8),
    Column("part", TEXT),
    Column("money", DataType(Kind.NUMERIC, 38, 18)),
    Column("flag", BOOL),
    Column("day", DataType(Kind.DATE)),
    Column("at", DataType(Kind.TIMESTAMP)),
)
SCHEMA = Schema(COLUMNS, ("id", "part"))
EPOCH = Epoch(7 << 16)


def table_of(net: Net) -> dict[Key, NetRow]:
    """Return what is in the log of `net`, read back as rows."""
    table = log_table(net, SCHEMA, vnode_count=8, epoch=EPOCH)
    assert table.column("epoch").to_pylist() == [EPOCH] * len(net)
    found: dict[Key, NetRow] = {}
    for line in table.to_pylist():
        key = tuple(line["key"].values())
        assert line["vnode"] == vnode_of(key, SCHEMA.key_columns, 8)
        assert line["op"] == (DELETE if line["new"] is None else UPSERT)
        new, old = (None if line[c] is None else tuple(line[c].values()) for c in ("new", "old"))
        found[key] = NetRow(line["known"], old, new)
    return found


@st.composite
def rows_of(draw: st.DrawFn, key: Key) -> Row:
    money = draw(st.none() | st.decimals(-(10**20) + 1, 10**20 - 1, places=18))
    at = draw(st.none() | st.datetimes())
    return (*key, money, draw(st.none() | st.booleans()), draw(st.none() | st.dates()), at)


@st.composite
def nets(draw: st.DrawFn) -> Net:
    parts = st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.text(max_size=3))
    net: Net = {}
    for key in draw(st.lists(parts, unique=True, max_size=6)):
        old = draw(st.none() | rows_of(key))
        net[key] = NetRow(draw(st.booleans()), old, draw(st.none() | rows_of(key)))
    return net


@given(nets())
def test_it_reads_back_as_it_was(net: Net) -> None:
    assert table_of(net) == net


@given(nets())
def test_it_is_sorted_by_key_with_nulls_first(net: Net) -> None:
    keys = log_table(net, SCHEMA, vnode_count=8, epoch=EPOCH).column("key").to_pylist()
    order = [tuple((part is not None, part) for part in key.values()) for key in keys]
    assert order == sorted(order)


def test_absent_is_not_a_row_of_nulls(tmp_path: Path) -> None:
    nothing: Row = (None,) * len(COLUMNS)
    net: Net = {(None, None): NetRow(True, None, nothing), (1, "a"): NetRow(True, nothing, None)}
    Lake(str(tmp_path)).write("log.parquet", log_table(net, SCHEMA, vnode_count=8, epoch=EPOCH))
    first, second = pq.read_table(tmp_path / "log.parquet").to_pylist()
    assert first["key"] == {"id": None, "part": None}
    assert first["old"] is None and first["new"] == dict.fromkeys(SCHEMA.names)
    assert second["new"] is None and second["old"] == dict.fromkeys(SCHEMA.names)


def test_the_integers_of_the_decoder_are_days_and_microseconds() -> None:
    row: Row = (1, "a", Decimal("1.5"), True, 19_782, 1_709_168_523_000_004)
    found = table_of({(1, "a"): NetRow(True, None, row)})[1, "a"].new
    assert found is not None
    assert found[4:] == (date(2024, 2, 29), datetime(2024, 2, 29, 1, 2, 3, 4))


def test_an_empty_log_has_all_its_columns() -> None:
    table = log_table({}, SCHEMA, vnode_count=8, epoch=EPOCH)
    assert table.num_rows == 0
    assert table.column_names == ["vnode", "epoch", "op", "known", "key", "new", "old", "holes"]
