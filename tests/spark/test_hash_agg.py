"""A view kept by changes equals its law row by row, and its query from scratch."""

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ops.common.errors import NegativeRowCount
from ops.common.table.net import NetRow
from ops.planner.plan_view import ROW_COUNT
from resources.lake import Lake
from tests.support.control import Place, new_place
from tests.support.live_table import LiveTable
from tests.support.live_view import UPSTREAM, VIEW, WISHES, LiveView, row
from tests.support.model import Wish, recompute

COLLECTED = "ops.aggregate.view_executor.COLLECTED_ROWS"
PATHS = {"arrow": 200_000, "spark": -1}


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(st.lists(WISHES, min_size=2, max_size=3), st.permutations(list(PATHS)))
def test_random_changes(
    place: Place,
    lake: Lake,
    spark: SparkSession,
    history: list[list[Wish]],
    paths: list[str],
) -> None:
    """Both ways of writing the result, one after the other, over the same states."""
    view = LiveView.create(new_place(place.store), lake, spark)
    for number, wanted in enumerate(history):
        view.upstream.commit(wanted)
        upstream = view.upstream.history[view.upstream.now]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(COLLECTED, PATHS[paths[number % 2]])
            view.follow()
        expected = view.expected()
        assert expected == recompute(VIEW, UPSTREAM, upstream.values())
        assert view.shown() == expected
    now = view.state.now
    counts = {k: r[VIEW.state.names.index(ROW_COUNT)] for k, r in view.state.read(now)[now].items()}
    assert counts == {k: g.rows for k, g in view.groups.items() if g.rows}


def put(view: LiveView, *rows: tuple[object, ...]) -> None:
    view.upstream.commit([Wish(r[:1], r[:1], r[1:], "put", False) for r in rows])


def drop(view: LiveView, *numbers: int) -> None:
    nothing = (None,) * (len(UPSTREAM.columns) - 1)
    view.upstream.commit([Wish((n,), (n,), nothing, "delete", False) for n in numbers])


@pytest.mark.parametrize("path", PATHS)
def test_a_group_through_its_life(
    place: Place, lake: Lake, spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All digits at scale 18; NULL when the last value is gone; nothing left in the end."""
    monkeypatch.setattr(COLLECTED, PATHS[path])
    view = LiveView.create(place, lake, spark)
    wide = "99999999999999999990.000000000000000001"
    put(view, row(1, None, wide=wide, mid=5), row(2, None), row(3, "x", wide="-1E-18"))
    view.follow()
    names = VIEW.output.names
    none = dict(zip(names, view.shown()[None, None], strict=True))
    assert none["wide"] == Decimal(wide) and (none["n"], none["mids"], none["mid"]) == (2, 1, 5)
    # Two epochs in one range: up by 2E-18, and the other group is gone.
    put(view, row(4, None, wide="0.000000000000000002"))
    drop(view, 3)
    view.follow()
    (shown,) = view.shown().values()
    none = dict(zip(names, shown, strict=True))
    assert none["wide"] == Decimal("99999999999999999990.000000000000000003")
    # Retracted with all its digits: what is left of the sum is the other value alone.
    drop(view, 1)
    view.follow()
    assert view.shown()[None, None][names.index("wide")] == Decimal("0.000000000000000002")
    drop(view, 4)
    view.follow()
    none = dict(zip(names, view.shown()[None, None], strict=True))
    assert (none["n"], none["mids"], none["mid"], none["wide"]) == (1, 0, None, None)
    drop(view, 2)
    view.follow()
    assert view.shown() == {} and view.state.read(view.state.now)[view.state.now] == {}


def test_what_does_not_move_a_group_writes_nothing(
    place: Place, lake: Lake, spark: SparkSession
) -> None:
    view = LiveView.create(place, lake, spark)
    put(view, row(1, "x", mid=5), row(2, "x", mid=7))
    assert {f.relation for f in view.follow()} == {
        view.output.relation.id,
        view.state.relation.id,
    }
    put(view, row(1, "x", mid=7), row(2, "x", mid=5))
    assert view.follow() == []
    assert view.shown() == view.expected()


@pytest.mark.parametrize("path", PATHS)
def test_a_negative_group_is_named(
    place: Place, lake: Lake, spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COLLECTED, PATHS[path])
    view = LiveView.create(place, lake, spark)
    put(view, row(1, "x"))
    view.follow()
    # The log claims that three rows ended that never were: the state cannot match.
    net = {(n,): NetRow(True, row(n, None), None) for n in (7, 8, 9)}
    epoch = view.upstream.commit_net(net, view.upstream.history[view.upstream.now])
    with pytest.raises(NegativeRowCount) as refused:
        view.follow()
    error = refused.value
    assert (error.view, error.group, error.count, error.epoch) == ("v", (None, None), -3, epoch)


def test_no_rows_no_work(place: Place, lake: Lake, spark: SparkSession) -> None:
    view = LiveView.create(place, lake, spark)
    table: LiveTable = view.upstream
    table.commit([])
    assert view.follow() == []
