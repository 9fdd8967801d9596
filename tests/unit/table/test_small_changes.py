"""What the driver nets and looks up by itself equals a dictionary, for keys of every type."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.common.arrow import arrow_schema
from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import BOOL, INT8, TEXT, Column, DataType, Kind, Schema
from ops.common.table.log import log_table
from ops.common.table.net import Key, Net, NetRow
from ops.common.table.point_lookup import PointLookup
from ops.common.table.small_changes import newest_of, small_changes, superseded
from resources.lake import Lake

PARTS: dict[DataType, tuple[Any, ...]] = {
    DataType(Kind.INT2): (None, 0, -(2**15)),
    DataType(Kind.INT4): (None, 0, 2**31 - 1),
    INT8: (None, 1, -(2**63)),
    DataType(Kind.NUMERIC, 38, 18): (None, Decimal(0), Decimal("1.5")),
    TEXT: (None, "", "ä"),
    BOOL: (None, True, False),
    DataType(Kind.BYTEA): (None, b"", b"\0"),
    DataType(Kind.DATE): (None, date(1, 1, 1), date(2024, 2, 29)),
    DataType(Kind.TIMESTAMP): (None, datetime(1, 1, 1), datetime(2024, 1, 1, 0, 0, 0, 1)),
    DataType(Kind.TIMESTAMPTZ): (None, datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),
    DataType(Kind.OTHER, name="uuid"): (None, "a-b", "a-c"),
}
KEYS = [(t,) for t in PARTS] + [(INT8, TEXT), (BOOL, DataType(Kind.DATE), INT8), tuple(PARTS)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(types=st.sampled_from(KEYS), data=st.data())
def test_changes_of_keys_of_every_type(
    types: tuple[DataType, ...], tmp_path: Path, data: st.DataObject
) -> None:
    keys = st.tuples(*(st.sampled_from(PARTS[t]) for t in types))
    columns = tuple(Column(f"k.{i}", t) for i, t in enumerate(types))
    schema = Schema((Column("v", INT8), *columns), tuple(c.name for c in columns))
    files = Files(Lake(str(tmp_path / str(data.draw(st.uuids())))), schema)
    rows: dict[Key, Row] = {k: (n, *k) for n, k in enumerate(data.draw(st.sets(keys, max_size=5)))}
    below = [files.base(dict(list(rows.items())[n::2]), f"page-{n}") for n in range(2)]
    logs, said = [], {}
    moves = st.dictionaries(keys, st.none() | st.integers(100, 103), min_size=1, max_size=4)
    for epoch, move in enumerate(data.draw(st.lists(moves, max_size=3)), 1):
        logs.append(files.log(rows, move, known=False, epoch=epoch))
        said |= move
    newest = newest_of(files.lake, schema, logs) if logs else None
    if newest is not None:
        new = zip(tuples(newest["key"]), tuples(newest["new"]), strict=True)
        assert sorted(new, key=repr) == sorted(((k, rows.get(k)) for k in said), key=repr)
        stale = superseded(files.lake, schema, logs)
        assert stale.num_rows == files.written - len(said)
    before = dict(rows)
    moved: set[Key] = set()
    changed = []
    for epoch, move in enumerate(data.draw(st.lists(moves, min_size=1, max_size=2)), 10):
        known = data.draw(st.booleans())
        changed.append(files.log(rows, move, known=known, epoch=epoch))
        moved |= move.keys()
    found = small_changes(files.lake, schema, changed, below=below, logs=logs)
    lines = zip(*(tuples(found[name]) for name in ("key", "old", "new")), strict=True)
    expected = [(k, before.get(k), rows.get(k)) for k in moved]
    assert sorted(lines, key=repr) == sorted(expected, key=repr)


def test_only_what_may_hold_a_key_is_read(tmp_path: Path) -> None:
    """The other row groups are spoilt: their bounds alone must be enough."""
    schema = Schema((Column("id", TEXT), Column("v", INT8)), ("id",))
    lake = Lake(str(tmp_path / "lake"))
    ids = [f"{letter}{n}" for letter in "abc" for n in range(100)]
    table = pa.table({"id": ids, "v": list(range(300))}, arrow_schema(schema.columns))
    path = Path(lake.uri("t/base.parquet"))
    path.parent.mkdir(parents=True)
    pq.write_table(table, path, row_group_size=100, use_dictionary=False)
    with lake.parquet("t/base.parquet") as file:
        starts = [file.metadata.row_group(n).column(0).data_page_offset for n in range(3)]
    whole = bytearray(path.read_bytes())
    for start in (starts[0], starts[2]):
        whole[start : start + 40] = bytes(40)
    path.write_bytes(whole)
    wanted = pa.array([{"id": "b7"}, {"id": "b99x"}], pa.struct([("id", pa.string())]))
    found = PointLookup(lake, schema).find(wanted, below=["t/base.parquet"], logs=[])
    assert found.to_pylist() == [{"id": "b7", "v": 107}, None]


def test_a_column_that_older_files_lack_is_null_there(tmp_path: Path) -> None:
    old = Schema((Column("id", INT8), Column("v", TEXT)), ("id",))
    new = Schema((*old.columns, Column("added", INT8)), ("id",))
    lake = Lake(str(tmp_path))
    before, after = Files(lake, old), Files(lake, new)
    rows: dict[Key, Row] = {(1,): ("x", 1), (2,): ("y", 2)}
    below = [before.base({k: (k[0], r[0]) for k, r in rows.items()}, "base")]
    net: Net = {(1,): NetRow(True, (1, "x"), (1, "z"))}
    logs = [before.write(log_table(net, old, vnode_count=1, epoch=Epoch(1)), "1")]
    blind: Net = {(k,): NetRow(False, None, (k, "w", 5)) for k in (1, 2)}
    changed = [after.write(log_table(blind, new, vnode_count=1, epoch=Epoch(2)), "2")]
    found = small_changes(lake, new, changed, below=below, logs=logs)
    assert tuples(found["old"]) == [(1, "z", None), (2, "y", None)]


class Files:
    """Writes the rows of a dictionary as base files, and moves of it as log files."""

    def __init__(self, lake: Lake, schema: Schema) -> None:
        self.lake, self.schema = lake, schema
        self.written = 0

    def base(self, rows: dict[Key, Row], name: str) -> str:
        listed = [dict(zip(self.schema.names, row, strict=True)) for row in rows.values()]
        return self.write(pa.Table.from_pylist(listed, arrow_schema(self.schema.columns)), name)

    def log(
        self, rows: dict[Key, Row], move: dict[Key, int | None], *, known: bool, epoch: int
    ) -> str:
        """Write what `move` does to `rows`, and do it."""
        net: Net = {}
        for key, value in move.items():
            old, new = rows.pop(key, None), None if value is None else (value, *key)
            net[key] = NetRow(known, old if known else None, new)
            if new is not None:
                rows[key] = new
        self.written += len(net)
        table = log_table(net, self.schema, vnode_count=1, epoch=Epoch(epoch))
        return self.write(table, f"log-{epoch}")

    def write(self, table: pa.Table, name: str) -> str:
        path = f"t/{name}.parquet"
        self.lake.write(path, table)
        return path


def tuples(structs: pa.ChunkedArray) -> list[Row | None]:
    return [None if s is None else tuple(s.values()) for s in structs.to_pylist()]
