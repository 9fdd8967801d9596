"""The difference found at a settled point is what is wrong, while the source keeps being written.

A history is a list of transactions; the table has followed them up to e0, and may have been damaged
on the way. Each key's page is read at some moment, of a snapshot in which some transactions that
were committed just before may not be visible yet.
"""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.cdc.verify.settled import difference, right, still_wrong
from ops.common.change import Row
from ops.common.table.net import Key, Net, net_changes
from tests.support.model import Rows, Wish, apply_net, happen, wishes

NUMBERS = range(4)
KEYS: st.SearchStrategy[Key] = st.tuples(st.sampled_from(NUMBERS))
VALUES: st.SearchStrategy[Row] = st.tuples(st.integers(0, 3))
TRANSACTION = wishes(KEYS, VALUES, most=4)


def key_of(row: Row) -> Key:
    return row[:1]


@dataclass(frozen=True)
class Case:
    before: list[Wish]
    """What the source's table is at e0 comes from these."""
    damage: dict[Key, Row | None]
    during: list[list[Wish]]
    """Transactions after e0, in the order of their commits, the last one before e1."""
    reads: dict[Key, int]
    """Each key is read when so many of `during` are visible: at e0 none need be."""
    later: list[list[Wish]]
    """Transactions after e1 and before the repair is taken in."""


CASES = st.builds(
    Case,
    TRANSACTION,
    st.dictionaries(KEYS, st.one_of(st.none(), VALUES)),
    st.lists(TRANSACTION, max_size=4),
    st.fixed_dictionaries({(n,): st.integers(0, 4) for n in NUMBERS}),
    st.lists(TRANSACTION, max_size=2),
)


def followed(rows: Rows, transactions: list[list[Wish]]) -> tuple[Net, list[Rows]]:
    """Return the log of these transactions and the source's table after each."""
    changes, states = [], [rows]
    for wanted in transactions:
        sent, rows = happen(rows, wanted)
        changes += sent
        states.append(rows)
    return net_changes(changes, key_of), states


def damaged(rows: Rows, damage: dict[Key, Row | None]) -> Rows:
    after = {k: r for k, r in rows.items() if k not in damage}
    return after | {k: (*k, *v) for k, v in damage.items() if v is not None}


def read_while(case: Case, states: list[Rows]) -> Rows:
    """Return the rows as pages find them: each key at its own moment."""
    moments = {key: min(seen, len(states) - 1) for key, seen in case.reads.items()}
    return {k: states[at][k] for k, at in moments.items() if k in states[at]}


@given(CASES)
def test_what_is_right_is_the_source_at_e1(case: Case) -> None:
    log, states = followed(happen({}, case.before)[1], case.during)
    assert right(read_while(case, states), log) == states[-1]


@given(CASES)
def test_the_difference_is_empty_iff_the_table_was_right(case: Case) -> None:
    truth = happen({}, case.before)[1]
    log, states = followed(truth, case.during)
    lake = damaged(truth, case.damage)
    found = difference(read_while(case, states), lake, log.keys())
    at_e1 = apply_net(lake, log)
    assert (not found) == (at_e1 == states[-1])
    assert {k: r.new for k, r in found.items()} == {
        k: states[-1].get(k) for k in at_e1.keys() | states[-1] if at_e1.get(k) != states[-1].get(k)
    }
    assert all(row.known and row.old == at_e1.get(key) for key, row in found.items())


@given(CASES)
def test_a_repair_taken_in_late_makes_the_table_right(case: Case) -> None:
    truth = happen({}, case.before)[1]
    log, states = followed(truth, case.during)
    later, ends = followed(states[-1], case.later)
    found = difference(read_while(case, states), damaged(truth, case.damage), log.keys())
    # Taken in with the epoch of `later`: the log and the repair name different keys.
    taken = still_wrong(found, later.keys())
    at_the_end = apply_net(apply_net(damaged(truth, case.damage), log), {**later, **taken})
    assert at_the_end == ends[-1]
    assert not still_wrong(taken, taken.keys()), "written twice, it changes nothing"
