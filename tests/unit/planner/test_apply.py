"""What applying does to a real store: versions, builds, drops; and several applying at once."""

import threading
from typing import Any

import pytest

from ops.barrier_worker.lease import acquire
from ops.common.errors import RelationEnded
from ops.common.schema import INT8, TEXT, Column, Schema
from ops.common.table.relation import Relation, Role, versions_of
from ops.planner.apply import Described, apply_pipeline, plan_steps
from ops.planner.diff import Change, Create, PlanStep, Underway, is_work
from ops.planner.parse import parse_pipeline
from ops.planner.plan import TablePlan
from ops.planner.stored import applied_pipeline
from resources.control_store import ControlStore
from resources.embedded.postgres import RunningPostgres
from tests.support.control import Place, new_place, shared_store

SQL = """
CREATE SOURCE s WITH (connector='postgres-cdc', hostname='h', username='u', database.name='d');
CREATE TABLE t (*) FROM s TABLE 'public.t';
CREATE TABLE u (*) FROM s TABLE 'public.u';
CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM t GROUP BY a;
"""
OTHER_TABLE = SQL.replace("'public.t'", "'public.t' WITH (snapshot.batch_size = '7')")
OTHER_VIEW = SQL.replace("count(*) AS n", "count(*) AS many")
WITHOUT_VIEW = SQL.partition("CREATE MATERIALIZED")[0]


@pytest.fixture
def place(shared: ControlStore) -> Place:
    return new_place(shared)


def describe(plan: TablePlan) -> Described:
    schema = Schema((Column("id", INT8, nullable=False), Column("a", TEXT)), ("id",))
    return Described(schema, 1, "d", (), {})


def apply(place: Place, sql: str = SQL, **wanted: Any) -> list[PlanStep]:
    plan = parse_pipeline(place.pipeline, sql)
    return apply_pipeline(place.store, plan, describe, interval_ms=1000, **wanted)


def versions(place: Place) -> list[tuple[str, str]]:
    shown = [r for r in versions_of(place.store, place.pipeline) if r.kind != "state"]
    return [(r.label, r.role) for r in shown]


def one(place: Place, label: str) -> Relation:
    return next(r for r in versions_of(place.store, place.pipeline) if r.label == label)


def make_live(place: Place) -> None:
    for relation in versions_of(place.store, place.pipeline):
        if relation.kind == "table":
            place.store.execute("set_relation_live", relation=relation.id, epoch=5)
        else:
            place.store.execute(
                "set_view_in_step",
                relation=relation.id,
                in_step=relation.kind == "view",
                state="Done",
                why=None,
                epoch=5,
            )


CURRENT = [("t", "current"), ("u", "current"), ("v", "current")]


def test_applied_twice_is_applied_once(place: Place) -> None:
    assert [type(step) for step in apply(place)] == [Create] * 4
    assert versions(place) == CURRENT
    assert not is_work(apply(place)) and versions(place) == CURRENT


def test_what_nobody_could_read_yet_is_replaced_at_once(place: Place) -> None:
    apply(place)
    term = acquire(place.store, one(place, "t").graph, owner="me", seconds=60)
    apply(place, OTHER_TABLE)
    assert versions(place) == [("u", "current"), ("t/v2", "current"), ("v/v2", "current")]
    assert one(place, "v/v2").upstream == one(place, "t/v2").id
    with pytest.raises(RelationEnded):
        acquire(place.store, term.graph, owner="me", seconds=60)


def test_a_build_is_swapped_whole_and_only_whole(place: Place) -> None:
    apply(place)
    make_live(place)
    apply(place, OTHER_TABLE)
    assert versions(place) == [*CURRENT, ("t/v2", "next"), ("v/v2", "next")]
    assert Underway in {type(step) for step in apply(place, OTHER_TABLE)}
    assert versions(place) == [*CURRENT, ("t/v2", "next"), ("v/v2", "next")]
    place.store.execute("set_relation_live", relation=one(place, "t/v2").id, epoch=6)
    assert place.store.query("select_ready_builds", pipeline=place.pipeline) == []
    make_live(place)
    (ready,) = place.store.query("select_ready_builds", pipeline=place.pipeline)
    with place.store.transaction() as tx:
        tx.execute("swap_out", pipeline=place.pipeline, build=ready["build"])
        tx.execute("swap_in", pipeline=place.pipeline, build=ready["build"])
    assert versions(place) == [("u", "current"), ("t/v2", "current"), ("v/v2", "current")]
    found = applied_pipeline(place.store, place.pipeline)
    states = found.states(found.current("v"))
    assert states and {state.version for state in states} == {2}
    assert found.table("t")[0].page_rows == 7


def test_a_view_of_its_own_and_back(place: Place) -> None:
    apply(place)
    make_live(place)
    apply(place, OTHER_VIEW)
    assert versions(place) == [*CURRENT, ("v/v2", "next")]
    assert one(place, "v/v2").upstream == one(place, "t").id
    found = applied_pipeline(place.store, place.pipeline)
    assert found.bound(found.to_fill("v")).output.names == ("a", "many")
    assert found.bound(found.current("v")).output.names == ("a", "n")
    apply(place)
    assert versions(place) == CURRENT
    apply(place, OTHER_VIEW)
    assert versions(place) == [*CURRENT, ("v/v3", "next")], "a number is used once"


def test_a_drop_ends_whoever_fills_it_and_a_new_one_starts_from_nothing(place: Place) -> None:
    apply(place)
    graph = one(place, "v").graph
    term = acquire(place.store, graph, owner="me", seconds=60)
    apply(place, WITHOUT_VIEW)
    assert versions(place) == CURRENT[:2]
    assert place.graph(graph)["term"] == term.term + 1
    with pytest.raises(RelationEnded):
        acquire(place.store, graph, owner="me", seconds=60)
    apply(place)
    assert versions(place) == [*CURRENT[:2], ("v/v2", "current")]


def test_only_what_is_new_is_made_when_nobody_asked_for_more(place: Place) -> None:
    apply(place, WITHOUT_VIEW)
    make_live(place)
    more = OTHER_TABLE.replace("FROM t GROUP", "FROM u GROUP") + OTHER_VIEW[
        OTHER_VIEW.index("CREATE MATERIALIZED") :
    ].replace("VIEW v", "VIEW w")
    steps = apply(place, more, only_new=True)
    assert [s.name for s in steps if isinstance(s, Change)] == ["t"]
    assert versions(place) == CURRENT, "w waits for what it reads to be changed"


def test_several_apply_at_once(place: Place, postgres: RunningPostgres) -> None:
    apply(place)
    make_live(place)
    plans = [OTHER_TABLE, OTHER_VIEW, SQL, WITHOUT_VIEW] * 3
    failed: list[BaseException] = []

    def run(sql: str) -> None:
        store: ControlStore = shared_store(postgres)
        try:
            apply(Place(store, place.pipeline), sql)
        except BaseException as error:
            failed.append(error)
        finally:
            store.close()

    threads = [threading.Thread(target=run, args=(sql,)) for sql in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    apply(place, OTHER_TABLE)
    steps = plan_steps(place.store, parse_pipeline(place.pipeline, OTHER_TABLE))
    assert not is_work(steps)
    now = versions_of(place.store, place.pipeline)
    for role in Role:
        names = [r.name for r in now if r.role == role]
        assert len(names) == len(set(names)), "one version of a name in each role"
    assert {r.upstream for r in now if r.kind == "view"} <= {r.id for r in now}
