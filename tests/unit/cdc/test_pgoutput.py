"""Messages of pgoutput, written by hand as the server writes them."""

import re
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.pg_tuple import SourceColumn, fast_reader, slow_reader
from ops.backfill.cdc.pgoutput import (
    UNCHANGED,
    Begin,
    Binding,
    Commit,
    Decoder,
    LogicalMessage,
    MalformedMessage,
    Poisoned,
    RelationChanged,
    RowChange,
    Truncated,
)
from ops.common.change import Delete, Insert, Update
from ops.common.schema import Column, DataType, Schema

OID = 16400
ORDERS = ("public", "orders")
AMOUNT = (12 << 16 | 2) + 4
COLUMNS = [("id", 20, -1), ("note", 25, -1), ("amount", 1700, AMOUNT), ("day", 1082, -1)]
SCHEMA = Schema(
    (
        Column("id", DataType.parse("int8"), nullable=False),
        Column("note", DataType.parse("text"), nullable=True),
        Column("amount", DataType.parse("numeric(12,2)"), nullable=False),
        Column("day", DataType.parse("date"), nullable=False),
    ),
    ("id",),
)
HALF = struct.pack(">hhHHHH", 2, 0, 0, 2, 12, 5000)
NAN = struct.pack(">hhHH", 0, 0, 0xC000, 0)
DAY = struct.pack(">i", 1)


def relation(
    columns: list[tuple[str, int, int]] = COLUMNS,
    *,
    table: tuple[str, str] = ORDERS,
    identity: bytes = b"d",
    key: tuple[str, ...] = ("id",),
    oid: int = OID,
) -> bytes:
    text = b"R" + struct.pack(">I", oid) + f"{table[0]}\0{table[1]}\0".encode()
    text += identity + struct.pack(">H", len(columns))
    for name, type_oid, modifier in columns:
        flag = name in key or identity == b"f"
        text += bytes([flag]) + name.encode() + b"\0" + struct.pack(">Ii", type_oid, modifier)
    return text


def cells(*values: Any) -> bytes:
    """bytes = binary, str = text, None = NULL, ... = unchanged TOAST."""
    out = struct.pack(">H", len(values))
    for value in values:
        if value is None:
            out += b"n"
        elif value is ...:
            out += b"u"
        else:
            raw = value.encode() if isinstance(value, str) else value
            out += (b"t" if isinstance(value, str) else b"b") + struct.pack(">I", len(raw)) + raw
    return out


def int8(value: int) -> bytes:
    return struct.pack(">q", value)


def row(key: int, note: Any = b"x", amount: Any = HALF) -> bytes:
    return cells(int8(key), note, amount, DAY)


def insert(data: bytes, oid: int = OID) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + data


def update(data: bytes, *, old: tuple[bytes, bytes] | None = None) -> bytes:
    image = old[0] + old[1] if old else b""
    return b"U" + struct.pack(">I", OID) + image + b"N" + data


def delete(kind: bytes, data: bytes) -> bytes:
    return b"D" + struct.pack(">I", OID) + kind + data


@pytest.fixture
def decoder() -> Decoder:
    made = Decoder({ORDERS: SCHEMA})
    assert made.decode(relation()) is None
    return made


def test_transaction_boundaries(decoder: Decoder) -> None:
    begin = b"B" + struct.pack(">QqI", 1000, 5, 77)
    commit = b"C" + struct.pack(">BQQq", 0, 1000, 1048, 5)
    assert decoder.decode(begin) == Begin(1000, 946_684_800_000_005, 77)
    assert decoder.decode(commit) == Commit(1000, 1048, 946_684_800_000_005)


def test_insert(decoder: Decoder) -> None:
    expected = (1, "x", Decimal("12.50"), 10_958)
    assert decoder.decode(insert(row(1))) == RowChange(ORDERS, Insert(expected))


def test_null_is_none_and_empty_is_empty(decoder: Decoder) -> None:
    for note, expected in ((None, None), (b"", "")):
        found = decoder.decode(insert(row(1, note)))
        assert found == RowChange(ORDERS, Insert((1, expected, Decimal("12.50"), 10_958)))


def test_a_null_where_none_was_expected_is_still_null(decoder: Decoder) -> None:
    """NOT NULL may have been dropped since the table was bound."""
    found = decoder.decode(insert(cells(int8(1), b"x", None, None)))
    assert found == RowChange(ORDERS, Insert((1, "x", None, None)))


def test_values_as_text(decoder: Decoder) -> None:
    found = decoder.decode(insert(cells("1", "x", "12.5", "1970-01-02")))
    assert found == RowChange(ORDERS, Insert((1, "x", Decimal("12.50"), 1)))


def test_update_without_key_change_has_no_before(decoder: Decoder) -> None:
    after = (1, "x", Decimal("12.50"), 10_958)
    assert decoder.decode(update(row(1))) == RowChange(ORDERS, Update(None, after, False))


def test_key_change_brings_the_old_key(decoder: Decoder) -> None:
    found = decoder.decode(update(row(2), old=(b"K", cells(int8(1), None, None, None))))
    before, after = (1, None, None, None), (2, "x", Decimal("12.50"), 10_958)
    assert found == RowChange(ORDERS, Update(before, after, full=False))


def test_delete_brings_the_key_only(decoder: Decoder) -> None:
    found = decoder.decode(delete(b"K", cells(int8(1), None, None, None)))
    assert found == RowChange(ORDERS, Delete((1, None, None, None), full=False))


def test_full_identity_brings_whole_rows() -> None:
    decoder = Decoder({ORDERS: SCHEMA})
    assert decoder.decode(relation(identity=b"f")) is None
    old, new = (1, "x", Decimal("12.50"), 10_958), (1, "y", Decimal("12.50"), 10_958)
    found = decoder.decode(update(row(1, b"y"), old=(b"O", row(1))))
    assert found == RowChange(ORDERS, Update(old, new, full=True))
    assert decoder.decode(delete(b"O", row(1))) == RowChange(ORDERS, Delete(old, full=True))


def test_unchanged_toast_is_a_hole_and_never_null(decoder: Decoder) -> None:
    found = decoder.decode(update(row(1, ...)))
    assert isinstance(found, RowChange) and isinstance(found.change, Update)
    assert found.change.after[1] is UNCHANGED
    assert found.holes == ("note",)


def test_unchanged_toast_under_full_identity_is_taken_from_the_old_row() -> None:
    decoder = Decoder({ORDERS: SCHEMA})
    decoder.decode(relation(identity=b"f"))
    found = decoder.decode(update(row(1, ...), old=(b"O", row(1, b"large"))))
    same = (1, "large", Decimal("12.50"), 10_958)
    assert found == RowChange(ORDERS, Update(same, same, full=True))


def test_rows_come_in_the_order_of_the_bound_columns() -> None:
    chosen = Schema((SCHEMA.column("day"), SCHEMA.column("id")), ("id",))
    unselected = frozenset({"note", "amount"})
    decoder = Decoder({ORDERS: Binding(chosen, unselected=unselected)})
    assert decoder.decode(relation()) is None
    for note in (b"x", None, ...):
        assert decoder.decode(update(row(7, note))) == RowChange(
            ORDERS, Update(None, (10_958, 7), False)
        )


def test_truncate_names_bound_tables_only(decoder: Decoder) -> None:
    def truncate(*oids: int) -> bytes:
        return b"T" + struct.pack(f">IB{len(oids)}I", len(oids), 0, *oids)

    assert decoder.decode(truncate(OID, 99)) == Truncated((ORDERS,))
    assert decoder.decode(truncate(99)) is None


def test_logical_message(decoder: Decoder) -> None:
    message = b"M" + struct.pack(">BQ", 1, 500) + b"tidegate\0" + struct.pack(">I", 3) + b"abc"
    assert decoder.decode(message) == LogicalMessage(True, 500, "tidegate", b"abc")


def test_what_is_not_bound_says_nothing(decoder: Decoder) -> None:
    assert decoder.decode(relation(table=("public", "other"), oid=5)) is None
    assert decoder.decode(insert(row(1), oid=5)) is None
    assert decoder.decode(insert(row(1), oid=6)) is None
    assert decoder.decode(b"O" + int8(1) + b"origin\0") is None
    assert decoder.decode(b"Y" + struct.pack(">I", 9) + b"public\0mood\0") is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (relation(COLUMNS[:-1]), "column day is gone or renamed"),
        (relation([*COLUMNS[:-1], ("day", 1114, -1)]), "column day was date and is now timestamp"),
        (relation([*COLUMNS[:-1], ("day", 3802, -1)]), "column day has another type"),
        (
            relation([*COLUMNS[:2], ("amount", 1700, AMOUNT + 1), COLUMNS[3]]),
            r"numeric\(12,2\) and is now numeric\(12,3\)",
        ),
        (relation([("id", 20, -1), ("note", 1043, -1), *COLUMNS[2:]]), "column note has another"),
        (relation([*COLUMNS, ("more", 25, -1)]), "column more was added"),
        (relation(key=("id", "day")), r"key was \(id\) and is now \(day, id\)"),
        (relation(key=()), r"now \(nothing\)"),
        (relation(identity=b"n"), "replica identity changed"),
        (relation(identity=b"f"), "replica identity changed from 'd' to 'f'"),
        (relation(oid=OID + 1), "dropped and made again"),
        (relation(table=("public", "renamed")), "renamed to public.renamed"),
    ],
)
def test_a_relation_that_no_longer_fits_stops_the_table(
    decoder: Decoder, message: bytes, why: str
) -> None:
    found = decoder.decode(message)
    assert isinstance(found, RelationChanged) and found.table == ORDERS
    assert re.search(why, found.why)
    for oid in (OID, OID + 1):
        assert decoder.decode(insert(row(1), oid)) is None, "its rows are skipped from then on"
    assert decoder.decode(relation()) is None
    assert decoder.decode(insert(row(1))) is None, "until it is bound again"
    decoder.bind(ORDERS, SCHEMA)
    assert decoder.decode(relation()) is None
    assert isinstance(decoder.decode(insert(row(1))), RowChange)


def test_identity_nothing_does_not_fit_even_at_first() -> None:
    found = Decoder({ORDERS: SCHEMA}).decode(relation(identity=b"n", key=()))
    assert isinstance(found, RelationChanged) and "NOTHING" in found.why


def test_the_same_relation_again_changes_nothing(decoder: Decoder) -> None:
    assert decoder.decode(relation()) is None
    assert isinstance(decoder.decode(insert(row(1))), RowChange)


def test_what_was_bound_is_remembered_across_restarts() -> None:
    """A rename or a new identity while nobody was reading must not pass as an unknown table."""
    bound = Binding(SCHEMA, oid=OID, identity="d")
    renamed = Decoder({ORDERS: bound}).decode(relation(table=("public", "renamed")))
    assert isinstance(renamed, RelationChanged) and renamed.table == ORDERS
    full = Decoder({ORDERS: bound}).decode(relation(identity=b"f"))
    assert isinstance(full, RelationChanged)


def test_a_table_bound_late_is_read_from_its_old_relation_message() -> None:
    decoder = Decoder({})
    assert decoder.decode(relation()) is None
    assert decoder.decode(insert(row(1))) is None
    assert decoder.bind(ORDERS, SCHEMA) is None
    assert isinstance(decoder.decode(insert(row(1))), RowChange)


@pytest.mark.parametrize(
    ("poison", "why"),
    [
        (row(1, b"x", NAN), "column amount: NaN"),
        (row(1, b"\xff"), "column note: .*decode"),
    ],
)
def test_poison_stops_one_table_and_the_stream_goes_on(
    decoder: Decoder, poison: bytes, why: str
) -> None:
    other = ("public", "other")
    decoder.bind(other, SCHEMA)
    decoder.decode(relation(table=other, oid=5))
    found = decoder.decode(insert(poison))
    assert isinstance(found, Poisoned) and found.table == ORDERS
    assert re.search(why, found.why)
    assert decoder.decode(insert(row(2))) is None
    assert decoder.decode(relation()) is None
    assert decoder.decode(insert(row(3))) is None, "a repeated Relation does not revive it"
    assert isinstance(decoder.decode(insert(row(2), oid=5)), RowChange)


@pytest.mark.parametrize("message", [b"Z", insert(row(1))[:-3], relation()[:-3], b"B\0"])
def test_damaged_messages_are_named(decoder: Decoder, message: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decoder.decode(message)


KINDS = {
    "int2": struct.Struct(">h").pack,
    "int4": struct.Struct(">i").pack,
    "int8": struct.Struct(">q").pack,
    "bool": struct.Struct(">?").pack,
    "date": struct.Struct(">i").pack,
    "timestamp": struct.Struct(">q").pack,
    "timestamptz": struct.Struct(">q").pack,
    "float4": struct.Struct(">f").pack,
    "float8": struct.Struct(">d").pack,
    "text": str.encode,
    "bytea": str.encode,
    "other(jsonb)": lambda text: b"\1" + text.encode(),
    "numeric(12,2)": lambda n: struct.pack(">hhHHHH", 2, 0, 0, 2, n % 10_000, 2500),
}
TEXTS = {
    **dict.fromkeys(KINDS, str),
    "bool": lambda n: "ft"[n],
    "date": lambda n: ("2024-02-29", "infinity")[n],
    "timestamp": lambda n: ("2024-02-29 12:34:56.5", "0044-03-15 00:00:00 BC")[n],
    "timestamptz": lambda n: ("2024-02-29 12:34:56+00", "10000-01-01 00:00:00.25+00")[n],
    "bytea": lambda text: "\\x" + text.encode().hex(),
    "numeric(12,2)": lambda n: ("-0.05", "9999999999.99")[n],
}
TEXTUAL = ("text", "bytea", "other(jsonb)")


@st.composite
def tuples(draw: st.DrawFn, forms: Any) -> tuple[list[SourceColumn], list[int], bytes]:
    """Any columns, any of them selected in any order, with a tuple that fits them."""
    columns, values = [], []
    for place in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(sorted(KINDS)))
        nullable = draw(st.booleans())
        selected = draw(st.booleans())
        bound = Column(f"c{place}", DataType.parse(kind), nullable) if selected else None
        columns.append(SourceColumn(f"c{place}", bound))
        value: Any = draw(st.text(max_size=9) if kind in TEXTUAL else st.integers(0, 1))
        null = nullable and draw(st.booleans())
        values.append(None if null else forms[kind](value))
    chosen = [i for i, column in enumerate(columns) if column.bound is not None]
    return columns, draw(st.permutations(chosen)), b"head" + cells(*values) + b"tail"


@pytest.mark.parametrize("binary", [True, False])
def test_the_fast_reader_agrees_with_the_slow_one(binary: bool) -> None:
    @given(tuples(KINDS if binary else TEXTS))
    def agrees(case: tuple[list[SourceColumn], list[int], bytes]) -> None:
        columns, order, message = case
        found = fast_reader(columns, order, binary=binary)(message, 4)
        assert found == slow_reader(columns, order)(message, 4)
        assert found[1] == len(message) - 4

    agrees()
