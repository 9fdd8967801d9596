"""How a view is kept: executors from the output down, with their keys and state tables.

    revenue  key (region)
    HashAgg  group by region; nothing is shown for a group without rows
      orders = count(*)                         value
      best = max(amount) filter (paid)          materialized input, revenue__entries_0
      state revenue__state  key (region)
    Filter  amount > 0
    Changes of orders  key (id)

Pure.
"""

from collections.abc import Iterator
from typing import assert_never

from ops.common.schema import Schema
from ops.planner.agg_state import storage_of
from ops.planner.expr import Apply, Case, Cast, Const, Expr, Ref
from ops.planner.plan_view import (
    AggCall,
    AggView,
    BoundView,
    ProjectView,
    Strategy,
    needs_entries,
    state_name,
)


def explain(view: BoundView, upstream: Schema) -> str:
    return "\n".join(_lines(view, upstream))


def _lines(view: BoundView, upstream: Schema) -> Iterator[str]:
    plan = view.plan
    yield f"{plan.name}  key ({', '.join(view.output.key)})"
    shown = (f"{c.name} = {show(c.expr)}" for c in view.columns if c.expr != _same(c.name, c.expr))
    yield "Project  " + (", ".join(shown) or "columns as they are")
    match view:
        case ProjectView():
            pass
        case AggView():
            yield from _aggregate(view)
        case _:
            assert_never(view)
    if view.where is not None:
        yield f"Filter  {show(view.where)}"
    yield f"Changes of {plan.upstream}  key ({', '.join(upstream.key)})"


def _aggregate(view: AggView) -> Iterator[str]:
    if view.having is not None:
        yield f"Filter  {show(view.having)}"
    if view.strategy is Strategy.ALWAYS_OUTPUT:
        yield "SimpleAgg  always one row"
    else:
        yield "HashAgg  group by " + ", ".join(show(key.expr) for key in view.keys)
    for call in view.calls:
        used = ""
        if needs_entries(call):
            used = f", {view.entries[view.entries_of(call)].name}"
        yield f"  {call.output} = {_call(call)}: {storage_of(call)}{used}"
    yield f"  state {state_name(view.plan.name)}  key ({', '.join(view.state.key)})"
    for entries in view.entries:
        yield f"  state {entries.name}  key ({', '.join(entries.schema.key)})"


def _call(call: AggCall) -> str:
    argument = "*" if call.argument is None else show(call.argument)
    condition = "" if call.filter is None else f" filter ({show(call.filter)})"
    return f"{call.kind}({'distinct ' if call.distinct else ''}{argument}){condition}"


def show(expr: Expr) -> str:
    """Return an expression for people to read: every cast it needs is seen, parentheses are not."""
    match expr:
        case Ref(name):
            return name
        case Const(None):
            return "NULL"
        case Const(str(text), kind):
            return text if kind is not None and kind.kind not in ("text", "date") else f"'{text}'"
        case Cast(operand, to, implicit):
            return show(operand) if implicit else f"{show(operand)}::{to}"
        case Apply(op, (left, right)) if not op[0].isalpha() or op in ("and", "or", "like"):
            return f"({show(left)} {op} {show(right)})"
        case Apply(op, args):
            return f"{op}({', '.join(map(show, args))})"
        case Case(branches, otherwise):
            whens = " ".join(f"when {show(w)} then {show(t)}" for w, t in branches)
            return f"case {whens} else {show(otherwise)} end"
        case _:
            raise AssertionError(expr)


def _same(name: str, expr: Expr) -> Expr | None:
    return Ref(name, expr.type) if isinstance(expr, Ref) else None
