"""What `tidegate plan` would do."""

import pytest

from ops.common.errors import ConfigError
from ops.planner.diff import (
    Change,
    Create,
    Drop,
    Keep,
    RelationKind,
    diff_pipeline,
    render,
    same_definition,
)
from ops.planner.parse import parse_pipeline
from ops.planner.plan import PipelinePlan

SOURCE, TABLE, VIEW = RelationKind.SOURCE, RelationKind.TABLE, RelationKind.VIEW
SQL = """
CREATE SOURCE s WITH (connector='postgres-cdc', hostname='h', username='u', database.name='d',
  password='one');
CREATE TABLE t (*) FROM s TABLE 'public.t';
CREATE TABLE u (*) FROM s TABLE 'public.u';
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) FROM t GROUP BY a;
"""


def parsed(sql: str) -> PipelinePlan:
    return parse_pipeline("p", sql)


def stored(plan: PipelinePlan) -> dict[str, str]:
    return {r.name: r.definition for r in (*plan.sources, *plan.tables, *plan.views)}


def test_everything_is_new() -> None:
    steps = diff_pipeline(parsed(SQL), {})
    assert steps == [
        Create(SOURCE, "s"),
        Create(TABLE, "t"),
        Create(TABLE, "u"),
        Create(VIEW, "v"),
    ]
    assert render(steps).splitlines()[-2:] == [
        "+ create view v",
        "4 to create, 0 to change, 0 to drop",
    ]


def test_what_does_not_count() -> None:
    other = SQL.replace("'one'", "'two'").replace("CREATE TABLE t", "-- hi\ncreate  table T")
    steps = diff_pipeline(parsed(other), stored(parsed(SQL)))
    assert steps == [Keep(SOURCE, "s"), Keep(TABLE, "t"), Keep(TABLE, "u"), Keep(VIEW, "v")]
    assert render(steps).endswith("= keep view v\nnothing to do")


def test_a_change_reaches_what_reads_it() -> None:
    other = SQL.replace("FROM s TABLE 'public.t'", "FROM s TABLE 'public.T'")
    steps = diff_pipeline(parsed(other), stored(parsed(SQL)))
    assert steps == [
        Keep(SOURCE, "s"),
        Change(TABLE, "t", "its definition changed"),
        Keep(TABLE, "u"),
        Change(VIEW, "v", "t is rebuilt"),
    ]
    assert "~ change view v: t is rebuilt" in render(steps)


def test_drops_come_last_and_backwards() -> None:
    steps = diff_pipeline(parsed(""), stored(parsed(SQL)))
    assert steps == [Drop(VIEW, "v"), Drop(TABLE, "t"), Drop(TABLE, "u"), Drop(SOURCE, "s")]


def test_another_kind_of_the_same_name_is_dropped_first() -> None:
    other = SQL.replace("CREATE TABLE u (*) FROM s TABLE 'public.u';", "").replace(
        "VIEW v AS", "VIEW u AS"
    )
    steps = diff_pipeline(parsed(other), stored(parsed(SQL)))
    assert steps == [
        Drop(TABLE, "u"),
        Keep(SOURCE, "s"),
        Keep(TABLE, "t"),
        Create(VIEW, "u"),
        Drop(VIEW, "v"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("CREATE TABLE t (*)", "create table  T\n(*)", True),
        ("CREATE TABLE IF NOT EXISTS t (*)", "CREATE TABLE t (*)", True),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS", "CREATE MATERIALIZED VIEW v AS", True),
        ('CREATE TABLE "T" (*)', 'CREATE TABLE "t" (*)', False),
        ("FROM s TABLE 'a'", "FROM s TABLE 'A'", False),
        ("not 'closed", "not 'closed either", False),
    ],
)
def test_same_definition(one: str, other: str, same: bool) -> None:
    assert same_definition(one, other) is same


def test_a_stored_text_of_no_kind() -> None:
    with pytest.raises(ConfigError, match="stored definition of x is none of"):
        diff_pipeline(parsed(SQL), {"x": "nonsense"})
