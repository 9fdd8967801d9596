"""Netting loses nothing: the net of any history, applied to what was, gives what is."""

from hypothesis import given
from hypothesis import strategies as st

from ops.common.change import Change, Row
from ops.common.table.net import (
    Key,
    Net,
    NetRow,
    merge_net,
    net_changes,
    without_before_images,
)
from tests.support.model import Rows, Wish, apply_net, happen, wishes

KEYS: st.SearchStrategy[Key] = st.tuples(
    st.integers(0, 3), st.one_of(st.none(), st.sampled_from("ab"))
)
VALUES: st.SearchStrategy[Row] = st.tuples(st.one_of(st.none(), st.integers(0, 9)))
WISHES = wishes(KEYS, VALUES)


def key_of(row: Row) -> Key:
    return row[:2]


def net(changes: list[Change]) -> Net:
    return net_changes(changes, key_of)


def started(wanted: list[Wish]) -> Rows:
    return happen({}, wanted)[1]


@given(WISHES, WISHES)
def test_the_net_applied_to_before_gives_after(first: list[Wish], then: list[Wish]) -> None:
    before = started(first)
    changes, after = happen(before, then)
    assert apply_net(before, net(changes)) == after


@given(WISHES, WISHES)
def test_a_known_old_is_what_was(first: list[Wish], then: list[Wish]) -> None:
    before = started(first)
    changes, _ = happen(before, then)
    for key, row in net(changes).items():
        if row.known:
            assert row.old == before.get(key)
        else:
            assert row.old is None


@given(WISHES, wishes(KEYS, VALUES, full=st.just(True)))
def test_full_images_leave_nothing_unknown(first: list[Wish], then: list[Wish]) -> None:
    changes, _ = happen(started(first), then)
    assert all(row.known for row in net(changes).values())


@given(WISHES, wishes(KEYS, VALUES, full=st.just(False)))
def test_without_images_only_what_came_into_being_is_known(
    first: list[Wish], then: list[Wish]
) -> None:
    before = started(first)
    changes, _ = happen(before, then)
    for key, row in net(changes).items():
        assert row.known == (key not in before)


@given(WISHES, WISHES, WISHES)
def test_two_ranges_merge_into_the_net_of_both(
    first: list[Wish], then: list[Wish], last: list[Wish]
) -> None:
    before = started(first)
    one, middle = happen(before, then)
    two, _ = happen(middle, last)
    assert merged(net(one), net(two)) == net([*one, *two])


ROWS = st.one_of(st.none(), VALUES)
NET_ROWS = st.builds(NetRow, st.booleans(), ROWS, ROWS)


@given(NET_ROWS, NET_ROWS, NET_ROWS)
def test_merging_is_associative(a: NetRow, b: NetRow, c: NetRow) -> None:
    assert merge_net(merge_net(a, b), c) == merge_net(a, merge_net(b, c))


@given(WISHES)
def test_without_before_images_only_what_was_not_there_is_known(wishes: list[Wish]) -> None:
    """A table that has not all rows must look up what the source says a row was before."""
    changes, _ = happen({}, wishes)
    whole = net(changes)
    blind = without_before_images(whole)
    assert blind.keys() == whole.keys()
    for key, row in blind.items():
        assert row.old is None and row.new == whole[key].new
        assert row.known == (whole[key].known and whole[key].old is None)


def merged(first: Net, second: Net) -> Net:
    both = {key: merge_net(first[key], second[key]) for key in first.keys() & second.keys()}
    return {**first, **second, **both}
