"""Views from their SQL, bound against a schema; and what calls over plain columns take of a row."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ops.common.change import Row
from ops.common.schema import Schema
from ops.planner.bind_view import bind_view
from ops.planner.expr import Ref
from ops.planner.parse import parse_pipeline
from ops.planner.plan import ViewPlan
from ops.planner.plan_view import AggCall, AggView, BoundView

OPTIONS = "connector='postgres-cdc', hostname='h', username='u', database.name='d'"
BEFORE = f"""CREATE SOURCE s WITH ({OPTIONS});
CREATE TABLE t (*) FROM s TABLE 'public.t';
"""


def view_plan(query: str) -> ViewPlan:
    return parse_pipeline("p", f"{BEFORE}CREATE MATERIALIZED VIEW v AS\n{query}").views[-1]


def bound_view(query: str, upstream: Schema, *, vnode_count: int = 4) -> BoundView:
    return bind_view(replace(view_plan(query), vnode_count=vnode_count), upstream)


def agg_view(query: str, upstream: Schema) -> AggView:
    view = bound_view(query, upstream)
    assert isinstance(view, AggView)
    return view


def argument_name(call: AggCall) -> str | None:
    assert call.filter is None and isinstance(call.argument, Ref | None)
    return None if call.argument is None else call.argument.name


def call_values(view: AggView, row: Mapping[str, Any]) -> list[Any]:
    names = [argument_name(call) for call in view.calls]
    return [True if name is None else row[name] for name in names]


def group_key(view: AggView, row: Mapping[str, Any]) -> Row:
    return tuple(row[key.expr.name] for key in view.keys if isinstance(key.expr, Ref))
