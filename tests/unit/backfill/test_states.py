"""States that were written once are read for ever; the recorded rows are never changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from ops.backfill.cdc.offset import PostgresOffset
from ops.backfill.cdc.state import CdcBackfillState, UnreadableState
from ops.backfill.cdc.state_v2 import Page, SplitState

RECORDED = Path(__file__).parents[2] / "recorded"


def recorded(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("case", recorded("splits"), ids=lambda c: c["written_by"])
def test_splits_of_any_age(case: dict[str, Any]) -> None:
    split = SplitState.from_row(case["row"])
    keys = [None if key is None else tuple(key) for key in case["key"]]
    assert [split.left, split.right, split.cursor] == keys
    assert (split.split_id, split.rows) == (case["row"]["split_id"], case["row"]["rows"])
    assert split.finished == case["row"]["finished"]
    assert split.version == case["row"].get("version", 2)


def test_a_page_moves_the_cursor() -> None:
    split = SplitState(1, 2, None, None, ("3",), rows=3)
    page = Page(1, None, None, 2, 10, 0.5, ("5",), finished=True)
    after = split.after(page, None)
    assert (after.cursor, after.rows, after.finished) == (("5",), 5, True)


@pytest.mark.parametrize("case", recorded("cdc_backfill_states"), ids=lambda c: c["width"])
def test_states_of_any_width(case: dict[str, Any]) -> None:
    split_id, position, finished, rows, lsn = case["state"]
    state = CdcBackfillState.from_row(case["row"], key_width=case["key_width"])
    assert state == CdcBackfillState(
        split_id,
        None if position is None else tuple(position),
        finished,
        rows,
        None if lsn is None else PostgresOffset(lsn),
    )
    again = state.to_row(key_width=case["key_width"])
    assert CdcBackfillState.from_row(again, key_width=case["key_width"]) == state
    if case["width"].startswith("whole"):
        assert again == case["row"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (["t", "1"], "it has 2 columns for a key of 2"),
        (["t", "1", "2"], "it has 3 columns"),
        (["t", "1", None, False, 0, None], "a part of its position is NULL"),
        (["t", "1", "2", False, 0, None, 1], "it has 7 columns"),
    ],
)
def test_what_cannot_be_read_is_said(row: list[Any], why: str) -> None:
    with pytest.raises(UnreadableState, match=why):
        CdcBackfillState.from_row(row, key_width=2)
    with pytest.raises(ValueError, match="not a key of 2 columns"):
        CdcBackfillState("t", ("1",), False, 0, None).to_row(key_width=2)
