"""Values of every kind, also those Python has no word for, in tables that are filled, logged and
folded; and keys of every kind. Compared are the integers Arrow holds, not Python's dates.
"""

from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from ops.common.arrow import arrow_schema
from ops.common.change import Delete, Insert, Row, Update
from ops.common.schema import Column, DataType, Schema
from ops.common.table.net import net_changes
from resources.lake import Lake
from tests.support.control import Place
from tests.support.live_table import LiveTable
from tests.support.model import key_of

NAN, INF = float("nan"), float("inf")
EDGES: dict[str, list[Any]] = {
    "int2": [-(2**15), 2**15 - 1],
    "int4": [-(2**31), 2**31 - 1],
    "int8": [-(2**63), 2**63 - 1],
    "float4": [NAN, INF, -INF, -0.0, 1.401298464324817e-45],
    "float8": [NAN, INF, -INF, -0.0, 5e-324],
    "numeric(38,18)": [Decimal("-99999999999999999999.999999999999999999"), Decimal("1E-18")],
    "text": ["", "\x01", "\U0001f600", "'\"\\"],
    "text(public.mood)": ["sad"],
    "bool": [True, False],
    "bytea": [b"", b"\x00\xff", b"a"],
    # -infinity, 4714 BC, before Spark's calendar, year 1, after year 9999, infinity
    "date": [-(2**31), -2_440_588, -800_000, -719_162, 2_932_897, 2**31 - 1],
    "timestamp": [-(2**63), -210_866_803_200_000_000, -1, 253_402_300_800_000_000, 2**63 - 1],
    "timestamptz": [-(2**63), -210_866_803_200_000_000, -1, 253_402_300_800_000_000, 2**63 - 1],
    "other(interval)": ["1 day", "24:00:00"],
}
KEY_KINDS = [
    "float8",
    "date",
    "timestamp",
    "timestamptz",
    "bytea",
    "numeric(38,18)",
    "bool",
    "text",
]


def plain(table: pa.Table, schema: Schema) -> list[Row]:
    """Return rows with dates and times as the integers they are, in a fixed order."""
    columns = []
    for column in schema.columns:
        values = table.column(column.name)
        if pa.types.is_date32(values.type):
            values = values.cast(pa.int32())
        elif pa.types.is_timestamp(values.type):
            values = values.cast(pa.int64())
        columns.append(values.to_pylist())
    return sorted(zip(*columns, strict=True), key=repr)


def kept(rows: dict[Any, Row], schema: Schema) -> list[Row]:
    wanted = arrow_schema(schema.columns)
    by_column = list(zip(*rows.values(), strict=True))
    arrays = [pa.array(list(c), f.type) for c, f in zip(by_column, wanted, strict=True)]
    return plain(pa.Table.from_arrays(arrays, schema=wanted), schema)


def show(rows: list[Row]) -> str:
    """A NaN is not equal to itself, and -0.0 is equal to 0.0: compare what is written."""
    return "\n".join(map(repr, rows))


def check(table: LiveTable) -> None:
    schema = table.relation.schema
    expected = kept(table.history[table.now], schema)
    for way in range(3):
        found = table.in_way(way).read(table.contents(table.now)).toArrow()
        assert show(plain(found, schema)) == show(expected)


def test_values_of_every_kind_stay_what_they_are(
    spark: SparkSession, place: Place, lake: Lake
) -> None:
    columns = [Column(f"c {name}", DataType.parse(name)) for name in EDGES]
    schema = Schema((Column("id", DataType.parse("int4"), False), *columns), ("id",))
    count = max(map(len, EDGES.values())) + 1
    rows: list[Row] = [
        (n, *(values[n % len(values)] if n < count - 1 else None for values in EDGES.values()))
        for n in range(count)
    ]
    table = LiveTable.create(place, lake, spark, schema)
    table.put_snapshot({(row[0],): row for row in rows}, files=2)
    check(table)
    turned = {(n,): (n, *rows[(n + 1) % count][1:]) for n in range(2, count)}
    changes = [Update(None, row, False) for row in turned.values()]
    for after_fold in (False, True):
        new = (100 + after_fold, *rows[2][1:])
        net = net_changes([*changes, Insert(new), Delete(rows[0], False)], key_of(schema))
        after = {**table.history[table.now], **turned, (new[0],): new}
        after.pop((0,), None)
        table.commit_net(net, after)
        check(table)
        table.fold()
        check(table)


def test_keys_of_every_kind_are_met(spark: SparkSession, place: Place, lake: Lake) -> None:
    """Each kind leads a composite key once; -0.0 and 0.0 are one key, NaN is one, NULL is one."""
    for first in KEY_KINDS:
        values = [*EDGES[first], None]
        schema = Schema(
            (
                Column("k", DataType.parse(first)),
                Column("l", DataType.parse("other(uuid)")),
                Column("v", DataType.parse("int4")),
            ),
            ("k", "l"),
        )
        table = LiveTable.create(place, lake, spark, schema)
        rows = {(k, part): (k, part, 0) for k in values for part in ("a", None)}
        table.put_snapshot(rows)
        for step in (1, 2):
            changed = {key: (_turned(key[0]), "a", step) for key in rows if key[1] == "a"}
            sent = [Update(None, row, False) for row in changed.values()]
            gone = [key for key in rows if key[1] is None][step - 1]
            net = net_changes([*sent, Delete((*gone, None), False)], key_of(schema))
            after = {**table.history[table.now], **changed}
            del after[gone]
            table.commit_net(net, after)
            check(table)
            before = list(table.history)[-2]
            moved = table.table.changes(
                [f for f in table.files() if f.epoch == table.now], table.contents(before)
            )
            assert moved.count() == len(net), (first, step)
            table.fold()
            check(table)


def _turned(value: Any) -> Any:
    """Return zero for minus zero, all else as it is."""
    return 0.0 if isinstance(value, float) and value == 0 else value
