"""What people are told of a comparison, and what they may ask for."""

import pytest

from ops.backfill.cdc.verify.ranges import ALL, BadRange, KeyRange, parse_range
from ops.backfill.cdc.verify.report import Fault, VerifyReport, WrongKey, wrong_keys
from ops.common.schema import INT8, TEXT, Column
from orchestration.comparing import as_words

ID = (Column("id", INT8),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3..9", KeyRange((3,), (10,))),
        ("-5..-5", KeyRange((-5,), (-4,))),
        ("7..", KeyRange((7,), None)),
        ("..7", KeyRange(None, (8,))),
        ("..", ALL),
    ],
)
def test_a_range_includes_both_of_its_ends(text: str, expected: KeyRange) -> None:
    assert parse_range(text, ID) == expected


@pytest.mark.parametrize(
    ("text", "why"), [("9..3", "it holds no key"), ("9", "it has no .."), ("a..b", "not whole")]
)
def test_a_range_that_means_nothing_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadRange, match=why):
        parse_range(text, ID)


def test_only_an_integer_key_has_parts() -> None:
    for key in [(Column("name", TEXT),), (*ID, Column("line", INT8))]:
        with pytest.raises(BadRange, match="one integer key"):
            parse_range("1..2", key)


def test_how_a_row_differs() -> None:
    nan = float("nan")
    rows = [
        {"key": {"id": 1}, "new": {"id": 1, "v": "a", "f": nan}, "old": None},
        {"key": {"id": 2}, "new": None, "old": {"id": 2, "v": "a", "f": nan}},
        {
            "key": {"id": 3},
            "new": {"id": 3, "v": None, "f": nan},
            "old": {"id": 3, "v": "", "f": nan},
        },
    ]
    assert wrong_keys(rows) == [
        WrongKey((1,), Fault.MISSING),
        WrongKey((2,), Fault.EXTRA),
        WrongKey((3,), Fault.DIFFERENT, ("v",)),
    ]


def test_a_report_in_words_for_programs() -> None:
    report = VerifyReport("orders", ranges=2, rows=10, wrong=1)
    report.keys = [WrongKey((3,), Fault.EXTRA)]
    report.wrong_ranges = {KeyRange((1,), None): 1}
    words = as_words(report)
    assert words["equal"] is False and words["wrong_ranges"] == [["[1, +∞)", 1]]
    assert words["keys"] == [{"key": [3], "fault": "extra", "columns": []}]
