"""Positions in a stream: their order, and that writing them down loses nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.offset import (
    OffsetsNotComparable,
    PostgresOffset,
    UnreadableOffset,
    lsn_to_int,
    lsn_to_str,
    parse_offset,
    serialize_offset,
)

LSNS = st.integers(0, 2**64 - 1)
OFFSETS = st.builds(PostgresOffset, LSNS, st.integers(0, 2**40))


@given(OFFSETS)
def test_parse_undoes_serialize(offset: PostgresOffset) -> None:
    assert parse_offset(serialize_offset(offset)) == offset


@given(LSNS)
def test_lsn_text_round_trip(lsn: int) -> None:
    assert lsn_to_int(lsn_to_str(lsn)) == lsn


def test_lsn_as_postgres_writes_it() -> None:
    assert lsn_to_int("0/16B3748") == 0x16B3748
    assert lsn_to_int("16/B374D848") == 0x16_B374D848
    assert lsn_to_str(0x16_0000_00FF) == "16/FF"


@pytest.mark.parametrize("text", ["", "16B3748", "x/1", "0/123456789"])
def test_what_is_no_lsn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no LSN"):
        lsn_to_int(text)


@given(OFFSETS, OFFSETS)
def test_order_is_by_commit_then_position(a: PostgresOffset, b: PostgresOffset) -> None:
    assert (a < b) == ((a.lsn, a.position) < (b.lsn, b.position))
    assert (a <= b) == (not b < a)
    assert (a > b) == (b < a) and (a >= b) == (b <= a)


def test_an_event_was_delivered_before_if_it_is_less_than_the_committed_offset() -> None:
    """A commit record of 48 bytes at 1000, committed; the next one starts where it ends."""
    committed = PostgresOffset(1048)
    assert PostgresOffset(1000, 1) < committed and PostgresOffset(1000, 900) < committed
    assert not PostgresOffset(1048, 1) < committed


@pytest.mark.parametrize("other", ["0/1", 5, ("mysql", "binlog.000001", 4), None])
def test_positions_of_different_streams_have_no_order(other: object) -> None:
    offset = PostgresOffset(1)
    for compare in (offset.__lt__, offset.__le__, offset.__gt__, offset.__ge__):
        with pytest.raises(OffsetsNotComparable, match="different kinds of stream"):
            compare(other)
    assert offset != other


def test_the_first_version_stays_readable() -> None:
    """Recorded; must be read for ever."""
    recorded = '{"v": 1, "postgres": {"lsn": "0/16B3748", "position": 7}}'
    assert parse_offset(recorded) == PostgresOffset(0x16B3748, 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "no JSON"),
        (json.dumps({"v": 2, "postgres": {}}), "version 2"),
        (json.dumps({"v": 1, "oracle": {"scn": 1}}), "no known kind"),
        ("[]", "no known kind"),
    ],
)
def test_unreadable_offsets_say_why(text: str, why: str) -> None:
    with pytest.raises(UnreadableOffset, match=why):
        parse_offset(text)
