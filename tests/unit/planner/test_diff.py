"""What `tidegate plan` would do."""

import pytest

from ops.common.errors import ConfigError
from ops.planner.diff import (
    Cancel,
    Change,
    Create,
    Drop,
    Keep,
    Next,
    RelationKind,
    Underway,
    builds,
    diff_pipeline,
    is_work,
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


def next_of(plan: PipelinePlan, *names: str, build: int = 7) -> dict[str, Next]:
    return {name: Next(text, build) for name, text in stored(plan).items() if name in names}


CHANGED = SQL.replace("FROM s TABLE 'public.t'", "FROM s TABLE 'public.T'")


def test_what_is_being_built_is_not_begun_again() -> None:
    building = next_of(parsed(CHANGED), "t", "v")
    steps = diff_pipeline(parsed(CHANGED), stored(parsed(SQL)), building)
    assert steps == [Keep(SOURCE, "s"), Underway(TABLE, "t"), Keep(TABLE, "u"), Underway(VIEW, "v")]
    assert not is_work(steps)


def test_the_old_definition_gives_the_build_up() -> None:
    building = next_of(parsed(CHANGED), "t", "v")
    steps = diff_pipeline(parsed(SQL), stored(parsed(SQL)), building)
    assert steps[:2] == [Cancel(TABLE, "t"), Cancel(VIEW, "v")]
    assert set(steps[2:]) == {
        Keep(SOURCE, "s"),
        Keep(TABLE, "t"),
        Keep(TABLE, "u"),
        Keep(VIEW, "v"),
    }


def test_a_view_changed_while_its_table_is_built_begins_both_again() -> None:
    building = next_of(parsed(CHANGED), "t", "v")
    other = parsed(CHANGED.replace("SELECT a, count(*)", "SELECT a, count(*), sum(b)"))
    steps = diff_pipeline(other, stored(parsed(SQL)), building)
    assert Cancel(TABLE, "t") in steps and Change(TABLE, "t", "its definition changed") in steps
    assert Change(VIEW, "v", "its definition changed") in steps


def test_what_is_built_anew_stays_asked_for_when_its_view_changes() -> None:
    building = next_of(parsed(SQL), "t", "v")
    other = parsed(SQL.replace("SELECT a, count(*)", "SELECT a, count(*), sum(b)"))
    steps = diff_pipeline(other, stored(parsed(SQL)), building)
    assert Change(TABLE, "t", "it is built anew") in steps
    assert [[s.name for s in group] for group in builds(steps, other)] == [["t", "v"]]


def test_a_new_view_of_what_is_being_built_joins_it() -> None:
    more = CHANGED + "CREATE MATERIALIZED VIEW w AS SELECT b, count(*) FROM t GROUP BY b;"
    building = next_of(parsed(CHANGED), "t", "v")
    steps = diff_pipeline(parsed(more), stored(parsed(SQL)), building)
    assert Underway(TABLE, "t") in steps and Create(VIEW, "w", 7) in steps
    assert builds(steps, parsed(more)) == []


def test_what_changes_apart_is_built_apart() -> None:
    plan = parsed(CHANGED.replace("'public.u'", "'public.U'"))
    steps = diff_pipeline(plan, stored(parsed(SQL)))
    assert [[s.name for s in group] for group in builds(steps, plan)] == [["t", "v"], ["u"]]


def test_anew_takes_what_reads_it_along() -> None:
    steps = diff_pipeline(parsed(SQL), stored(parsed(SQL)), anew=["t"])
    assert Change(TABLE, "t", "it is built anew") in steps
    assert Change(VIEW, "v", "t is rebuilt") in steps
    again = diff_pipeline(
        parsed(SQL), stored(parsed(SQL)), next_of(parsed(SQL), "t", "v"), anew=["t"]
    )
    assert Cancel(TABLE, "t") in again and Change(TABLE, "t", "it is built anew") in again


def test_a_source_reached_in_another_way_keeps_its_tables() -> None:
    other = parsed(SQL.replace("hostname='h'", "hostname='g'"))
    steps = diff_pipeline(other, stored(parsed(SQL)))
    assert steps[:2] == [Change(SOURCE, "s", "its definition changed"), Keep(TABLE, "t")]
    assert builds(steps, other) == []
