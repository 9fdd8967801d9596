"""What leads from what a graph has applied to what a user wants."""

import itertools
from functools import reduce

from ops.common.barrier import Add, Pause, Resume, Stop, Throttle, Update
from ops.common.controls import Controls, apply, mutations

ALL = [Controls(p, r) for p, r in itertools.product((False, True), (None, 5, 9))]


def test_the_difference_leads_there() -> None:
    for applied, wanted in itertools.product(ALL, ALL):
        found = mutations(applied, wanted, table="t")
        assert reduce(apply, found, applied) == wanted
        changed = (applied.paused != wanted.paused) + (applied.rows_per_s != wanted.rows_per_s)
        assert len(found) == changed


def test_by_name() -> None:
    assert mutations(Controls(), Controls(True)) == [Pause()]
    assert mutations(Controls(True), Controls()) == [Resume()]
    assert mutations(Controls(), Controls(False, 7), table="t") == [Throttle("t", 7)]


def test_other_mutations_change_nothing() -> None:
    for mutation in (Add(("v",)), Stop(), Update(())):
        assert apply(Controls(True, 5), mutation) == Controls(True, 5)
