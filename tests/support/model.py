"""The judge: tables as dictionaries, views recomputed from scratch, and random histories of both.

Nothing here is clever: a row is a tuple, a table a dict from key to row, a sum a Fraction.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from ops.common.change import Change, Delete, Insert, Row, Update
from ops.common.epoch import Epoch
from ops.common.schema import Schema
from ops.common.table.net import Key, Net
from ops.common.table.relation import DataFile, Relation
from ops.planner.plan_view import AggKind, AggView
from tests.support.views import argument_name, group_key

Rows = dict[Key, Row]


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody would like to happen; what does depends on the rows that are there."""

    key: Key
    to: Key
    values: Row
    act: str
    """`put` (insert or update), `delete`, or `move` (the key changes)."""
    full: bool
    """Whether the source sends the row as it was before."""


def wishes(
    keys: st.SearchStrategy[Key],
    values: st.SearchStrategy[Row],
    *,
    full: st.SearchStrategy[bool] | None = None,
    least: int = 0,
    most: int = 12,
) -> st.SearchStrategy[list[Wish]]:
    acts = st.sampled_from(["put", "put", "put", "delete", "move"])
    wish = st.builds(Wish, keys, keys, values, acts, st.booleans() if full is None else full)
    return st.lists(wish, min_size=least, max_size=most)


def happen(rows: Rows, wanted: Iterable[Wish]) -> tuple[list[Change], Rows]:
    """Return what a source would send, and the rows after it. A row is its key, then its values."""
    now, sent = dict(rows), []
    for wish in wanted:
        before = now.get(wish.key)
        after = (*wish.key, *wish.values)
        if before is None:
            if wish.act == "put":
                now[wish.key] = after
                sent.append(Insert(after))
            continue
        only_key = (*wish.key, *(None for _ in wish.values))
        shown = before if wish.full else only_key
        if wish.act == "delete":
            del now[wish.key]
            sent.append(Delete(shown, full=wish.full))
        elif wish.act == "put":
            now[wish.key] = after
            sent.append(Update(before if wish.full else None, after, full=wish.full))
        elif wish.to not in now:
            del now[wish.key]
            now[wish.to] = moved = (*wish.to, *wish.values)
            sent.append(Update(shown, moved, full=wish.full))
    return sent, now


def apply_net(rows: Rows, net: Net) -> Rows:
    after = {key: row for key, row in rows.items() if key not in net}
    return after | {key: row.new for key, row in net.items() if row.new is not None}


def difference(before: Rows, after: Rows) -> dict[Key, tuple[Row | None, Row | None]]:
    """Return (old, new) of every key that is not the same in both."""
    keys = before.keys() | after.keys()
    pairs = {key: (before.get(key), after.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def key_of(schema: Schema) -> Callable[[Row], Key]:
    positions = schema.key_positions
    return lambda row: tuple(row[i] for i in positions)


def recompute(view: AggView, upstream: Schema, rows: Iterable[Row]) -> Rows:
    """Return the view's rows, in its columns' order, by its query over all of `rows`."""
    groups: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        named = dict(zip(upstream.names, row, strict=True))
        group = group_key(view, named)
        groups.setdefault(group, []).append(named)
    names = [key.name for key in view.keys]
    result: Rows = {}
    for group, members in groups.items():
        shown: dict[str, Any] = dict(zip(names, group, strict=True))
        for call in view.calls:
            argument = argument_name(call)
            if argument is None:
                shown[call.output] = len(members)
                continue
            values = [m[argument] for m in members if m[argument] is not None]
            if call.kind is AggKind.COUNT:
                shown[call.output] = len(values)
            else:
                shown[call.output] = exact_sum(values, call.result.scale)
        result[group] = tuple(shown[name] for name in view.output.names)
    return result


def exact_sum(values: list[Any], scale: int) -> Decimal | int | None:
    if not values:
        return None
    total = sum((Fraction(v) for v in values), Fraction(0))
    unscaled = total * 10**scale
    assert unscaled.denominator == 1
    return Decimal(int(unscaled)).scaleb(-scale, Context(prec=100))


def relation(schema: Schema, **changed: Any) -> Relation:
    """Return a relation as the control store would give it; only what matters need be said."""
    given: dict[str, Any] = {
        "id": 1,
        "pipeline": "p",
        "name": "t",
        "version": 1,
        "role": "current",
        "build": None,
        "kind": "table",
        "definition": "",
        "schema": schema,
        "origin": None,
        "vnode_count": 4,
        "path": "p/t/v1",
        "graph": "p/t",
        "upstream": None,
        "state": "Live",
        "why": None,
        "live_since": Epoch(0),
        "snapshot_epoch": None,
        "in_step": False,
    }
    known = Relation.__dataclass_fields__
    return Relation(**{k: v for k, v in (given | changed).items() if k in known})


def data_file(number: int, kind: str, after: int, epoch: int, **changed: Any) -> DataFile:
    given: Mapping[str, Any] = {"path": f"{number}", "rows": 1, "bytes": 1, "unknown_rows": 0}
    return DataFile(number, kind, Epoch(after), Epoch(epoch), **{**given, **changed})
