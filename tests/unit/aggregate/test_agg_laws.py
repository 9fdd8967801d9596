"""Any history of a group gives what Postgres computes from the rows that are left."""

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.aggregate.agg_group import AggGroup, AggState, DistinctDeduplicater
from ops.common.schema import INT8, Column, DataType, Schema
from ops.planner.agg_state import AggStateStorage, storage_of
from tests.support.expressions import kept
from tests.support.views import agg_view, argument_name

TYPES = {"s": "int2", "i": "int4", "l": "int8", "m": "numeric(12,2)", "b": "bool", "t": "text"}
TABLE = Schema(
    (Column("id", INT8), *(Column(n, DataType.parse(t)) for n, t in TYPES.items())), ("id",)
)
CALLS = """count(*) count(i) sum(s) sum(i) sum(l) sum(m) avg(s) avg(i) avg(l) avg(m) min(i) max(m)
min(t) max(l) bool_and(b) bool_or(b) bit_and(s) bit_or(i) bit_xor(l) bit_and(l) var_pop(i)
var_samp(i) var_pop(m) var_samp(m) count(DISTINCT.i) sum(DISTINCT.m) avg(DISTINCT.i)
bit_xor(DISTINCT.s) bool_and(DISTINCT.b) count(DISTINCT.t)"""
NAMED = ", ".join(f"{c.replace('.', ' ')} AS c{n}" for n, c in enumerate(CALLS.split()))
GROUPED = agg_view(f"SELECT id, {NAMED} FROM t GROUP BY id", TABLE)
WHOLE = agg_view(f"SELECT {NAMED} FROM t", TABLE)


def _or_null(*values: object) -> st.SearchStrategy[object]:
    return st.none() | st.sampled_from(values)


MEMBERS = st.fixed_dictionaries(
    {
        "s": st.none() | st.integers(-32_768, 32_767),
        "i": _or_null(-(2**31), 2**31 - 1, 0, 7, 1000),
        "l": _or_null(-(2**63), 2**63 - 1, 0, -1, 3),
        "m": st.none() | st.decimals(-(10**7), 10**7, places=2) | st.just(Decimal("0.01")),
        "b": st.none() | st.booleans(),
        "t": st.none() | st.text("abé", max_size=2),
    }
)
Member = dict[str, Any]


def apply(group: AggGroup, member: Member, sign: int) -> None:
    names = [argument_name(call) for call in group.view.calls]
    group.apply([True if n is None else member[n] for n in names], sign)


@settings(suppress_health_check=list(HealthCheck), max_examples=40)
@given(st.lists(MEMBERS, max_size=7), st.randoms(use_true_random=False))
def test_any_history_equals_a_recompute_by_postgres(
    judge: psycopg.Connection[Any], members: list[Member], random: Any
) -> None:
    group, there = AggGroup(WHOLE, (0,)), list[Member]()
    for member in members:
        apply(group, member, 1)
        there.append(member)
        if random.random() < 0.4:
            apply(group, there.pop(random.randrange(len(there))), -1)
    judge.execute("TRUNCATE t")
    for number, member in enumerate(there):
        judge.execute(
            "INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s, %s)",
            [number, *(member[name] for name in TYPES)],
        )
    expected = judge.execute(f"SELECT {NAMED} FROM t").fetchone()
    found = group.output(1)
    assert expected is not None and found is not None
    shown = dict(zip((c.output for c in WHOLE.calls), found[1:], strict=True))
    wanted = dict(zip((f"c{n}" for n in range(len(expected))), expected, strict=True))
    assert {k: kept(_exact(v)) for k, v in shown.items()} == {
        k: kept(_exact(v)) for k, v in wanted.items()
    }


@pytest.fixture(scope="module")
def judge(postgres: Any) -> Any:
    dsn = postgres.ensure_database("agg_laws").reveal()
    with psycopg.connect(dsn, autocommit=True) as connection:
        columns = ", ".join(f"{n} {t}" for n, t in TYPES.items())
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute(f"CREATE TABLE t (id int8, {columns})")
        yield connection


@given(st.lists(MEMBERS, max_size=4), st.lists(MEMBERS, max_size=4))
def test_insert_then_retract_is_nothing(members: list[Member], passing: list[Member]) -> None:
    group, plain = AggGroup(GROUPED, (1,)), AggGroup(GROUPED, (1,))
    for member in members:
        apply(group, member, 1)
        apply(plain, member, 1)
    for sign in (1, -1):
        for member in passing:
            apply(group, member, sign)
    assert group.output(1) == plain.output(1)
    assert (group.output(1) is None) == (not members)


def test_without_rows_only_an_aggregate_without_groups_shows_a_row() -> None:
    assert AggGroup(GROUPED, (1,)).output(1) is None
    shown = AggGroup(WHOLE, (0,)).output(1)
    assert shown is not None
    counts = [n for n, call in enumerate(WHOLE.calls, 1) if call.kind == "count"]
    assert all(value == (0 if n in counts else None) for n, value in enumerate(shown) if n)


def test_only_the_first_and_the_last_of_a_value_pass() -> None:
    seen = DistinctDeduplicater()
    assert [seen.pass_on("x", sign) for sign in (1, 1, -1, -1, 1)] == [
        True,
        False,
        False,
        True,
        True,
    ]
    with pytest.raises(ValueError, match="more often than it came"):
        seen.pass_on("y", -1)


def test_min_and_max_keep_their_input() -> None:
    kinds = {c.kind: storage_of(c) for c in WHOLE.calls}
    kept_input = {k for k, s in kinds.items() if s is AggStateStorage.MATERIALIZED_INPUT}
    assert kept_input == {"min", "max"}
    assert AggState().output(WHOLE.calls[1]) == 0


def _exact(value: Any) -> Any:
    return Decimal(value) if isinstance(value, int) and not isinstance(value, bool) else value
