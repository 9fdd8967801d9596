"""Make the control store hold what a pipeline's definition asks for.

Creating is done here; a changed or dropped definition is refused for now, with the way out.

Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from ops.common.errors import ConfigError, Unsupported
from ops.common.ports import Failpoint, Statements, Store, unarmed
from ops.common.schema import INTEGERS, Schema
from ops.common.table.relation import Relation, relations_of
from ops.planner.bind import bind_table
from ops.planner.bind_view import bind_view
from ops.planner.diff import Create, Keep, PlanStep, RelationKind, diff_pipeline, render
from ops.planner.plan import PipelinePlan, TablePlan, ViewPlan
from ops.planner.plan_view import AggView, BoundView, ProjectView, state_name


@dataclass(frozen=True, slots=True)
class Described:
    """A source's table: its columns and key, and by what to know it again."""

    schema: Schema
    oid: int
    identity: str
    unselected: tuple[str, ...]
    types: Mapping[str, tuple[int, int]]
    """Each column's type at the source: its oid and modifier."""


Describe = Callable[[TablePlan], Described]


ALL = "*"
"""In place of a relation's name: the maintenance of the pipeline as a whole."""


def main_graph(pipeline: str) -> str:
    return pipeline


def relation_graph(pipeline: str, name: str) -> str:
    return f"{pipeline}/{name}"


def maintenance_graph(pipeline: str, name: str) -> str:
    return f"{pipeline}/{name}/maintenance"


def verify_graph(pipeline: str, name: str) -> str:
    return f"{pipeline}/{name}/verify"


def plan_steps(store: Statements, plan: PipelinePlan) -> list[PlanStep]:
    """Return what applying would do; nothing is changed."""
    stored = {r.name: r.definition for r in relations_of(store, plan.name) if r.kind != "state"}
    for source in plan.sources:
        for row in store.query("select_source", pipeline=plan.name, name=source.name):
            stored[row["name"]] = row["definition"]
    return diff_pipeline(plan, stored)


def apply_pipeline(
    store: Store,
    plan: PipelinePlan,
    describe: Describe,
    *,
    interval_ms: int,
    checkpoint_frequency: int = 1,
    failpoint: Failpoint = unarmed,
) -> list[PlanStep]:
    """Create what is new; `describe` asks the source for a table's columns and key."""
    with store.lock(f"apply {plan.name}"):
        steps = plan_steps(store, plan)
        refused = [s for s in steps if not isinstance(s, Create | Keep)]
        if refused:
            raise Unsupported(
                f"pipeline {plan.name} differs from what is running: {render(refused).strip()}",
                hint="changing or dropping a relation is not supported yet; put the old "
                "definition back, or start over with an empty TIDEGATE_HOME",
            )
        new = {s.name for s in steps if isinstance(s, Create)}
        # Ask the source before the transaction: none of ours may be open while it is prepared.
        found = {t.name: _bound_table(t, describe) for t in plan.tables if t.name in new}
        failpoint("apply.before_commit")
        with store.transaction() as tx:
            tx.execute("ensure_pipeline", pipeline=plan.name, interval_ms=interval_ms)
            tx.execute(
                "set_default_frequency",
                pipeline=plan.name,
                checkpoint_frequency=checkpoint_frequency,
            )
            tx.execute("ensure_graph", graph=main_graph(plan.name), pipeline=plan.name, kind="main")
            tx.execute(
                "ensure_graph",
                graph=maintenance_graph(plan.name, ALL),
                pipeline=plan.name,
                kind="maintenance",
            )
            for source in plan.sources:
                tx.execute(
                    "ensure_source",
                    pipeline=plan.name,
                    name=source.name,
                    definition=source.definition,
                    slot=source.slot,
                    publication=source.publication,
                )
            for table in plan.tables:
                if table.name in new:
                    _create_table(tx, table, *found[table.name])
            for view in plan.views:
                if view.name in new:
                    _create_view(tx, view)
        failpoint("apply.after_commit")
        return steps


def bound_view(plan: ViewPlan, relations: list[Relation]) -> BoundView:
    upstream = next(r for r in relations if r.name == plan.upstream)
    return bind_view(plan, upstream.schema)


def state_schemas(view: BoundView) -> dict[str, Schema]:
    """Return the names and schemas of a view's state tables, the intermediate one first."""
    match view:
        case ProjectView():
            return {}
        case AggView():
            entries = {e.name: e.schema for e in view.entries}
            return {state_name(view.plan.name): view.state, **entries}
        case _:
            assert_never(view)


def _bound_table(plan: TablePlan, describe: Describe) -> tuple[Schema, dict[str, Any]]:
    found = describe(plan)
    schema = bind_table(plan, found.schema)
    kinds = [c.type.kind for c in schema.key_columns]
    if len(kinds) != 1 or kinds[0] not in INTEGERS:
        key = ", ".join(f"{c.name} {c.type}" for c in schema.key_columns)
        raise ConfigError(
            f"table {plan.name}: its key ({key}) is not one integer column, which is all that can "
            "be backfilled so far"
        )
    origin = {
        "oid": found.oid,
        "identity": found.identity,
        "unselected": [*found.unselected],
        "types": found.types,
    }
    return schema, origin


def _create_table(tx: Statements, plan: TablePlan, schema: Schema, origin: dict[str, Any]) -> None:
    _create(
        tx,
        plan.pipeline,
        plan.name,
        kind=RelationKind.TABLE.value,
        definition=plan.definition,
        schema=schema,
        origin=origin,
        vnode_count=plan.vnode_count,
        graph=relation_graph(plan.pipeline, plan.name),
        upstream=None,
        state="Waiting",
    )


def _create_view(tx: Statements, plan: ViewPlan) -> None:
    relations = relations_of(tx, plan.pipeline)
    bound = bound_view(plan, relations)
    upstream = next(r.id for r in relations if r.name == plan.upstream)
    states = [(name, "state", schema) for name, schema in state_schemas(bound).items()]
    for name, kind, schema in ((plan.name, "view", bound.output), *states):
        _create(
            tx,
            plan.pipeline,
            name,
            kind=kind,
            definition=plan.definition,
            schema=schema,
            origin=None,
            vnode_count=plan.vnode_count,
            graph=relation_graph(plan.pipeline, plan.name),
            upstream=upstream,
            state="WaitingForUpstream",
        )


def _create(
    tx: Statements,
    pipeline: str,
    name: str,
    *,
    kind: str,
    definition: str,
    schema: Schema,
    origin: dict[str, Any] | None,
    vnode_count: int,
    graph: str,
    upstream: int | None,
    state: str,
) -> None:
    tx.execute("ensure_graph", graph=graph, pipeline=pipeline, kind="backfill")
    tx.execute(
        "ensure_graph",
        graph=maintenance_graph(pipeline, name),
        pipeline=pipeline,
        kind="maintenance",
    )
    tx.execute(
        "insert_relation",
        pipeline=pipeline,
        name=name,
        kind=kind,
        definition=definition,
        schema=schema.to_json(),
        origin=origin,
        vnode_count=vnode_count,
        path=f"{pipeline}/{name}/v1",
        graph=graph,
        upstream=upstream,
        state=state,
    )
