"""Values of Postgres on the wire, in binary and as text."""

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ops.backfill.cdc.pg_values import (
    NAN,
    ValueRefused,
    binary_decoder,
    keeps_values,
    text_decoder,
    type_of,
)
from ops.common.schema import DataType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def numeric_wire(value: Decimal) -> bytes:
    """Write a numeric as numeric_send does: base 10,000, no zero groups at the ends."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    places = max(0, -exponent)
    unscaled *= 10 ** (max(exponent, 0) + (-places) % 4)
    groups: list[int] = []
    while unscaled:
        unscaled, group = divmod(unscaled, 10_000)
        groups.insert(0, group)
    weight = len(groups) - 1 - -(-places // 4)
    while groups and groups[-1] == 0:
        groups.pop()
    head = (len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, places)
    return struct.pack(f">hhHH{len(groups)}H", *head, *groups)


@st.composite
def fitting(draw: st.DrawFn) -> tuple[Decimal, DataType]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    unscaled = draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    return Decimal(f"{unscaled}E-{scale}"), DataType.parse(f"numeric({precision},{scale})")


@given(fitting())
def test_numerics_are_exact(case: tuple[Decimal, DataType]) -> None:
    value, data_type = case
    for found in (
        binary_decoder(data_type)(numeric_wire(value)),
        text_decoder(data_type)(f"{value:f}".encode()),
    ):
        assert found == value
        assert -found.as_tuple().exponent == data_type.scale


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("1.005", "numeric(12,2)"),
        ("12345678901.00", "numeric(12,2)"),
        ("1e-19", "numeric(38,18)"),
        ("100000000000000000000", "numeric(38,18)"),
        ("1e-200", "numeric(38,18)"),
        ("1e200", "numeric(38,18)"),
        ("1" * 300, "numeric(38,0)"),
    ],
)
def test_numerics_that_do_not_fit_are_refused(text: str, data_type: str) -> None:
    wanted = DataType.parse(data_type)
    with pytest.raises(ValueRefused, match="more digits"):
        binary_decoder(wanted)(numeric_wire(Decimal(text)))
    with pytest.raises(ValueRefused, match="more digits"):
        text_decoder(wanted)(text.encode())


@pytest.mark.parametrize(
    ("sign", "name"), [(0xC000, "NaN"), (0xD000, "Infinity"), (0xF000, "-Infinity")]
)
def test_numerics_that_are_no_numbers_are_refused(sign: int, name: str) -> None:
    wanted = DataType.parse("numeric(12,2)")
    with pytest.raises(ValueRefused, match=name):
        binary_decoder(wanted)(struct.pack(">hhHH", 0, 0, sign, 0))
    with pytest.raises(ValueRefused, match=name):
        text_decoder(wanted)(name.encode())


@given(st.dates())
def test_dates_are_days_since_1970(day: date) -> None:
    wanted = DataType.parse("date")
    expected = (day - EPOCH.date()).days
    wire = struct.pack(">i", (day - date(2000, 1, 1)).days)
    assert binary_decoder(wanted)(wire) == expected
    assert text_decoder(wanted)(day.isoformat().encode()) == expected


@given(st.datetimes(), st.sampled_from(["timestamp", "timestamptz"]))
def test_timestamps_are_microseconds_since_1970(moment: datetime, kind: str) -> None:
    wanted = DataType.parse(kind)
    expected = (moment.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    wire = struct.pack(">q", (moment - datetime(2000, 1, 1)) // timedelta(microseconds=1))
    text = moment.isoformat(" ") + ("+00" if kind == "timestamptz" else "")
    assert binary_decoder(wanted)(wire) == expected
    assert text_decoder(wanted)(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2024-05-01 10:00:00+02", "2024-05-01 08:00:00+00"),
        ("2024-05-01 10:00:00-03:30", "2024-05-01 13:30:00+00"),
        ("1890-01-01 00:00:00+00:53:28", "1889-12-31 23:06:32+00"),
    ],
)
def test_zones_in_text_are_taken_off(text: str, same: str) -> None:
    decode = text_decoder(DataType.parse("timestamptz"))
    assert decode(text.encode()) == decode(same.encode())


def test_years_python_does_not_have() -> None:
    dates, times = (text_decoder(DataType.parse(kind)) for kind in ("date", "timestamp"))
    assert dates(b"4714-11-24 BC") == -2_440_588
    assert dates(b"0001-12-31 BC") == dates(b"0001-01-01") - 1
    assert dates(b"10000-01-01") == dates(b"9999-12-31") + 1
    assert times(b"0001-12-31 23:59:59.999999 BC") == times(b"0001-01-01 00:00:00") - 1


@pytest.mark.parametrize(
    ("kind", "code", "end"),
    [("date", "i", 2**31), ("timestamp", "q", 2**63), ("timestamptz", "q", 2**63)],
)
def test_infinity_is_the_end_of_the_integers(kind: str, code: str, end: int) -> None:
    wanted = DataType.parse(kind)
    for value, text in ((end - 1, b"infinity"), (-end, b"-infinity")):
        assert binary_decoder(wanted)(struct.pack(">" + code, value)) == value
        assert text_decoder(wanted)(text) == value


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_timestamps_without_a_place_in_int64_are_refused(kind: str) -> None:
    wanted, shift = DataType.parse(kind), 10_957 * 86_400_000_000
    assert binary_decoder(wanted)(struct.pack(">q", 2**63 - 2 - shift)) == 2**63 - 2
    for beyond in (2**63 - 1 - shift, 2**63 - 2):
        with pytest.raises(ValueRefused, match="after the year 294246"):
            binary_decoder(wanted)(struct.pack(">q", beyond))
    with pytest.raises(ValueRefused, match="after the year 294246"):
        text_decoder(wanted)(b"294276-12-31 00:00:00")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
@pytest.mark.parametrize("text", ["01.05.2024", "tomorrow", ""])
def test_text_that_is_no_moment_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueRefused):
        text_decoder(DataType.parse(kind))(text.encode())


@given(st.floats(width=32))
def test_floats_keep_their_bits(value: float) -> None:
    """Postgres's shortest text of a float4 tells it from other float4 only."""
    wire = struct.pack(">f", value)
    binary, text = (
        binary_decoder(DataType.parse("float4"))(wire),
        text_decoder(DataType.parse("float4"))(f"{value:.9g}".encode()),
    )
    assert struct.pack(">d", binary) == struct.pack(">d", text)
    assert binary is NAN if value != value else struct.pack(">f", binary) == wire
    assert {(binary,): 1} == {(text,): 1}, "they are one key, also as NaN"


@given(st.floats())
def test_doubles_keep_their_bits(value: float) -> None:
    wanted = DataType.parse("float8")
    for found in (
        binary_decoder(wanted)(struct.pack(">d", value)),
        text_decoder(wanted)(repr(value).encode()),
    ):
        assert (
            found is NAN if value != value else struct.pack("d", found) == struct.pack("d", value)
        )


@given(st.binary())
def test_bytes_are_bytes(value: bytes) -> None:
    wanted = DataType.parse("bytea")
    assert binary_decoder(wanted)(value) == value
    assert text_decoder(wanted)(b"\\x" + value.hex().encode()) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_numerics_as_text_have_the_digits_they_came_with(value: Decimal) -> None:
    assume(-300 < value.adjusted() < 300)
    shown = f"{value:f}".removeprefix("-" if value.is_zero() else "")
    wanted = DataType.parse("other(numeric)")
    assert binary_decoder(wanted)(numeric_wire(value)) == shown
    assert text_decoder(wanted)(shown.encode()) == shown


def test_small_types() -> None:
    for kind, code in (("int2", "h"), ("int4", "i"), ("int8", "q")):
        decode = binary_decoder(DataType.parse(kind))
        assert decode(struct.pack(">" + code, -7)) == -7
        assert text_decoder(DataType.parse(kind))(b"-7") == -7
    truth = DataType.parse("bool")
    assert [binary_decoder(truth)(raw) for raw in (b"\x01", b"\x00")] == [True, False]
    assert [text_decoder(truth)(raw) for raw in (b"t", b"f")] == [True, False]
    assert binary_decoder(DataType.parse("text"))("héllo ☃".encode()) == "héllo ☃"


@pytest.mark.parametrize(
    ("oid", "modifier", "expected"),
    [
        (1700, -1, "numeric(38,18)"),
        (1700, (12 << 16 | 2) + 4, "numeric(12,2)"),
        (1700, (5 << 16 | (-2 & 0x7FF)) + 4, "numeric(7,0)"),
        (1700, (3 << 16 | 5) + 4, "numeric(5,5)"),
        (1043, 14, "text"),
        (1042, 8, "text"),
        (1184, -1, "timestamptz"),
    ],
)
def test_types_by_oid(oid: int, modifier: int, expected: str) -> None:
    assert type_of(oid, modifier) == DataType.parse(expected)


@pytest.mark.parametrize(
    ("bound", "now", "keeps"),
    [
        ((23, -1), (23, -1), True),
        ((23, -1), (20, -1), False),
        ((1043, 24), (1043, 44), True),
        ((1043, 24), (1043, -1), True),
        ((1043, -1), (1043, 24), False),
        ((1043, 44), (1043, 24), False),
        ((1042, 9), (1042, 12), False),
        ((1043, 9), (25, -1), False),
    ],
)
def test_which_changes_of_a_type_rewrite_nothing(
    bound: tuple[int, int], now: tuple[int, int], keeps: bool
) -> None:
    assert keeps_values(bound, now) is keeps


def test_an_unknown_type_is_none() -> None:
    assert type_of(3802, -1) is None
