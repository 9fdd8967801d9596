"""From a view's query to its plan with types, given the columns of what it reads.

Queries in FROM are flattened from the inside out. A query without aggregates is put into the one
around it, column by column; one with aggregates may only be filtered and projected by those
around it: its WHERE is then a HAVING.

GROUP BY resolves as in Postgres: a number is a position, a bare name is a column of FROM and only
if there is none an output's name; anything else is an expression.

Pure.
"""

from dataclasses import dataclass, replace

from sqlglot import exp

from ops.common.schema import BOOL, INT8, Column, Kind, Schema
from ops.planner.agg_functions import arguments, kind_of, result_of
from ops.planner.agg_state import state_columns
from ops.planner.expr import Apply, Const, Expr, Ref, refs, rewrite, type_of
from ops.planner.expr_bind import Binder
from ops.planner.expr_functions import Unresolved
from ops.planner.expr_types import INT2, shown
from ops.planner.names import HIDDEN, clash, column_fault, hidden_key
from ops.planner.plan import ViewPlan
from ops.planner.plan_view import (
    ENTRY_COUNT,
    ONE_GROUP,
    ROW_COUNT,
    VALUE,
    AggCall,
    AggKind,
    AggView,
    BoundView,
    Entries,
    Named,
    ProjectView,
    Strategy,
    entries_name,
    needs_entries,
)
from ops.planner.query import Ctes, ViewQuery, alias_of, name_of, source_of

_GROUP, _CALL = f"{HIDDEN}group_", f"{HIDDEN}call_"


@dataclass(frozen=True)
class _Group:
    keys: tuple[Expr, ...]
    calls: tuple[AggCall, ...]
    having: Expr | None
    without_keys: bool


@dataclass(frozen=True)
class _Flat:
    """A query over the base table; with a group, `columns` refer to its keys and calls."""

    where: Expr | None
    group: _Group | None
    columns: tuple[Named, ...]


def bind_view(view: ViewPlan, upstream: Schema) -> BoundView:
    """Return the view with its types, given the schema of what it reads."""
    flat = _flatten(view.query, view.query.tree, {}, upstream)
    _check_names(view, flat)
    if flat.group is None:
        return _project(view, flat, upstream)
    return _aggregate(view, flat, flat.group, upstream)


def _flatten(query: ViewQuery, select: exp.Expr, around: Ctes, upstream: Schema) -> _Flat:
    assert isinstance(select, exp.Select)
    source = source_of(select, around)
    if isinstance(source, tuple):
        inner = _flatten(query, *source, upstream)
    else:
        shown = [c for c in upstream.columns if not c.name.startswith(HIDDEN)]
        inner = _Flat(None, None, tuple(Named(c.name, Ref(c.name, c.type)) for c in shown))
    return _Select(query, select, inner).flat()


class _Select:
    def __init__(self, query: ViewQuery, select: exp.Select, inner: _Flat) -> None:
        self.query, self.select, self.inner = query, select, inner
        self.scope = {c.name: c.expr for c in inner.columns}
        self.qualifier = alias_of(select)
        self.calls: list[AggCall] = []
        self.plain = Binder(self._column, query.refuse, self._no_aggregate)
        self.binder = Binder(self._column, query.refuse, self._aggregate)

    def flat(self) -> _Flat:
        where = self.select.args.get("where")
        condition = None if where is None else self.plain.condition(where.this, "WHERE")
        items = self._items()
        bound = [(name, self.binder.typed(tree), tree) for name, tree in items]
        group, having = self.select.args.get("group"), self.select.args.get("having")
        distinct = self.select.args.get("distinct")
        kept = None if having is None else self.binder.condition(having.this, "HAVING")
        if group is None and having is None and not self.calls:
            flat = self._projected(condition, tuple(Named(n, e) for n, e, _ in bound))
            return flat if distinct is None else self._distinct(flat, distinct)
        if self.inner.group is not None or distinct is not None:
            raise self.query.refuse(
                "an aggregate of an aggregate is not supported yet in one view",
                self.select,
                "make the inner query a view of its own",
            )
        keys = self._keys(group, items)
        columns = tuple(Named(n, self._grouped(e, keys, t)) for n, e, t in bound)
        if kept is not None and having is not None:
            kept = self._grouped(kept, keys, having.this)
        made = _Group(keys, tuple(self.calls), kept, without_keys=not keys)
        return _Flat(_both(self.inner.where, condition), made, columns)

    def _projected(self, condition: Expr | None, columns: tuple[Named, ...]) -> _Flat:
        inner = self.inner
        if inner.group is None:
            return _Flat(_both(inner.where, condition), None, columns)
        group = replace(inner.group, having=_both(inner.group.having, condition))
        return _Flat(inner.where, group, columns)

    def _distinct(self, flat: _Flat, tree: exp.Expr) -> _Flat:
        if flat.group is not None:
            what = "DISTINCT of an aggregate is not supported yet in one view"
            raise self.query.refuse(what, self.select, "make the inner query a view of its own")
        keys: list[Expr] = list(dict.fromkeys(c.expr for c in flat.columns))
        for key in keys:
            self._require_groupable(key, self.select)
        columns = tuple(Named(c.name, _key_ref(keys.index(c.expr), c.expr)) for c in flat.columns)
        return _Flat(flat.where, _Group(tuple(keys), (), None, without_keys=False), columns)

    def _items(self) -> list[tuple[str, exp.Expr]]:
        found: list[tuple[str, exp.Expr]] = []
        for tree in self.select.expressions:
            if _is_star(tree):
                self._check_qualifier(tree)
                found += [
                    (name, exp.column(exp.to_identifier(name, quoted=True))) for name in self.scope
                ]
                continue
            alias = name_of(tree.args["alias"]) if isinstance(tree, exp.Alias) else None
            bare = tree.this if isinstance(tree, exp.Alias) else tree
            found.append((alias or self._default_name(bare), bare))
        return found

    def _check_qualifier(self, tree: exp.Expr) -> None:
        table = tree.args.get("table")
        if table is not None and name_of(table) != self.qualifier:
            what = f"{name_of(table)} is not in FROM"
            hint = f"write {self.qualifier} before the dot" if self.qualifier else ""
            raise self.query.refuse(what, tree, hint)

    def _default_name(self, tree: exp.Expr) -> str:
        """Return the name Postgres gives a column without AS; where it has none, ask for one."""
        match tree:
            case exp.Paren():
                return self._default_name(tree.this)
            case exp.Column(this=exp.Identifier()):
                return name_of(tree.this)
            case exp.Cast(this=exp.Column() | exp.Func()):
                return self._default_name(tree.this)
            case exp.Filter():
                return self._default_name(tree.this)
            case exp.Func() if "start" in tree.meta:
                return self.query.word(tree).lower()
        raise self.query.refuse("this column has no name", tree, "name it with AS")

    def _column(self, tree: exp.Column) -> Expr:
        if tree.args.get("db") is not None or tree.args.get("catalog") is not None:
            raise self.query.refuse(f"the reference {tree.sql()} is not supported yet", tree)
        self._check_qualifier(tree)
        name = name_of(tree.this)
        if name not in self.scope:
            there = ", ".join(self.scope)
            raise self.query.refuse(f"there is no column {name!r}", tree, f"there are: {there}")
        return self.scope[name]

    def _no_aggregate(self, binder: Binder, tree: exp.Expr) -> Expr | None:
        if kind_of(tree) is not None or isinstance(tree, exp.Filter):
            raise self.query.refuse("an aggregate may not stand here", tree)
        return None

    def _aggregate(self, binder: Binder, tree: exp.Expr) -> Expr | None:
        """Note an aggregate and return what stands for its result."""
        condition: Expr | None = None
        call = tree
        if isinstance(tree, exp.Filter):
            call = tree.this
            condition = self.plain.condition(tree.expression.this, "FILTER")
        kind = kind_of(call)
        if kind is None:
            if isinstance(tree, exp.Filter):
                raise self.query.refuse(
                    f"the function {self.query.word(tree)} is not supported yet", tree
                )
            return None
        given, distinct = arguments(call)
        if len(given) != 1:
            raise self.query.refuse(f"{kind} takes one argument here, not {len(given)}", tree)
        for arg in call.args:
            if call.args[arg] and arg not in ("this", "expressions", "big_int"):
                raise self.query.refuse(f"{arg.upper()} in {kind} is not supported yet", tree)
        if isinstance(given[0], exp.Order):
            raise self.query.refuse(f"ORDER BY inside {kind} is not supported yet", tree)
        if kind is AggKind.COUNT and isinstance(given[0], exp.Star) and not distinct:
            made = AggCall(kind, None, "", INT8, condition)
        else:
            problem: Unresolved | None = None
            try:
                argument, result = result_of(kind, self.plain.bind(given[0]))
            except Unresolved as error:
                problem = error
            if problem is not None:
                raise self.query.refuse(problem.what, tree, problem.hint)
            if distinct or kind in (AggKind.MIN, AggKind.MAX):
                self._require_groupable(argument, tree)
            made = AggCall(kind, argument, "", result, condition, distinct)
        for number, known in enumerate(self.calls):
            if replace(known, output="") == made:
                return Ref(f"{_CALL}{number}", made.result)
        self.calls.append(replace(made, output=f"{_CALL}{len(self.calls)}"))
        return Ref(self.calls[-1].output, made.result)

    def _keys(self, group: exp.Expr | None, items: list[tuple[str, exp.Expr]]) -> tuple[Expr, ...]:
        keys: list[Expr] = []
        for tree in group.expressions if group is not None else ():
            key = self.plain.typed(self._key_tree(tree, items))
            self._require_groupable(key, tree)
            keys.append(key)
        return tuple(dict.fromkeys(keys))

    def _key_tree(self, tree: exp.Expr, items: list[tuple[str, exp.Expr]]) -> exp.Expr:
        if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
            place = int(tree.name)
            if not 1 <= place <= len(items):
                what = f"GROUP BY position {place} is not in the SELECT list"
                raise self.query.refuse(what, tree, f"it has {len(items)} columns")
            return items[place - 1][1]
        if isinstance(tree, exp.Column) and tree.args.get("table") is None:
            name = name_of(tree.this)
            named = [t for n, t in items if n == name]
            if name not in self.scope and len(named) == 1:
                return named[0]
        return tree

    def _require_groupable(self, key: Expr, tree: exp.Expr) -> None:
        given = type_of(key)
        exact = given.name in ("", "uuid", "jsonb")
        if given.kind is Kind.OTHER or given.kind is Kind.TEXT:
            if exact and (given.name or given.kind is Kind.TEXT):
                return
            what = f"{shown(given)} cannot be grouped: equal values may be written differently"
            raise self.query.refuse(what, tree, "cast it to text")

    def _grouped(self, expr: Expr, keys: tuple[Expr, ...], tree: exp.Expr) -> Expr:
        """Return the expression over keys and calls alone."""

        def as_key(part: Expr) -> Expr | None:
            return _key_ref(keys.index(part), part) if part in keys else None

        found = rewrite(expr, as_key)
        for ref in refs(found):
            if not ref.name.startswith((_GROUP, _CALL)):
                what = f"column {ref.name} is neither grouped nor aggregated"
                raise self.query.refuse(what, tree, f"add {ref.name} to GROUP BY")
        return found


def _project(view: ViewPlan, flat: _Flat, upstream: Schema) -> ProjectView:
    columns, key = list(flat.columns), []
    for name in upstream.key:
        ref = Ref(name, upstream.column(name).type)
        shown = next((c.name for c in flat.columns if c.expr == ref), None)
        if shown is None:
            shown = name if name.startswith(HIDDEN) else hidden_key(name)
            columns.append(Named(shown, ref))
        key.append(shown)
    made = tuple(_column(c.name, c.expr, upstream) for c in columns)
    return ProjectView(view, flat.where, tuple(columns), Schema(made, tuple(key)))


def _aggregate(view: ViewPlan, flat: _Flat, group: _Group, upstream: Schema) -> AggView:
    keys = tuple(Named(_key_name(number, key, flat), key) for number, key in enumerate(group.keys))
    if group.without_keys:
        keys = (Named(ONE_GROUP, Const("0", INT2)),)
    names = {f"{_GROUP}{n}": key.name for n, key in enumerate(keys)}
    for number, call in enumerate(group.calls):
        ref = Ref(call.output, call.result)
        shown = next((c.name for c in flat.columns if c.expr == ref), call.output)
        names[f"{_CALL}{number}"] = shown
    calls = tuple(replace(c, output=names[c.output]) for c in group.calls)

    def named(part: Expr) -> Expr | None:
        return Ref(names[part.name], part.type) if isinstance(part, Ref) else None

    having = None if group.having is None else rewrite(group.having, named)
    shown_columns = [Named(c.name, rewrite(c.expr, named)) for c in flat.columns]
    visible = {c.name for c in shown_columns}
    hidden = [Named(k.name, Ref(k.name, type_of(k.expr))) for k in keys if k.name not in visible]
    columns = (*shown_columns, *hidden)
    key_columns = tuple(_column(k.name, k.expr, upstream) for k in keys)
    known = Schema(
        (*key_columns, *(Column(c.output, c.result, c.kind is not AggKind.COUNT) for c in calls)),
        (),
    )
    key = tuple(k.name for k in keys)
    output = Schema(tuple(_column(c.name, c.expr, known) for c in columns), key)
    states = [Column(s.name, s.type, s.nullable) for call in calls for s in state_columns(call)]
    state = Schema((*key_columns, Column(ROW_COUNT, INT8, nullable=False), *states), key)
    return AggView(
        plan=view,
        where=flat.where,
        keys=keys,
        calls=calls,
        having=having,
        columns=columns,
        strategy=Strategy.ALWAYS_OUTPUT
        if group.without_keys
        else Strategy.ONLY_OUTPUT_IF_HAS_INPUT,
        output=output,
        state=state,
        entries=_entries(view, calls, key_columns),
    )


def _entries(
    view: ViewPlan, calls: tuple[AggCall, ...], key_columns: tuple[Column, ...]
) -> tuple[Entries, ...]:
    found: dict[tuple[Expr, Expr | None], Entries] = {}
    for call in calls:
        if call.argument is None or not needs_entries(call):
            continue
        value = Column(VALUE, type_of(call.argument), nullable=False)
        columns = (*key_columns, value, Column(ENTRY_COUNT, INT8, nullable=False))
        key = (*(c.name for c in key_columns), VALUE)
        name = entries_name(view.name, len(found))
        made = Entries(name, call.argument, call.filter, Schema(columns, key))
        found.setdefault((call.argument, call.filter), made)
    return tuple(found.values())


def _key_name(number: int, key: Expr, flat: _Flat) -> str:
    """Return the name under which a key is shown, or hidden if it is not selected as it is."""
    ref = _key_ref(number, key)
    shown = next((c.name for c in flat.columns if c.expr == ref), None)
    if shown is not None:
        return shown
    if isinstance(key, Ref) and not key.name.startswith(HIDDEN):
        return hidden_key(key.name)
    return hidden_key(str(number + 1))


def _column(name: str, expr: Expr, known: Schema) -> Column:
    if isinstance(expr, Ref):
        return replace(known.column(expr.name), name=name)
    never = isinstance(expr, Const) and expr.text is not None
    return Column(name, type_of(expr), nullable=not never)


def _key_ref(number: int, key: Expr) -> Ref:
    return Ref(f"{_GROUP}{number}", type_of(key))


def _check_names(view: ViewPlan, flat: _Flat) -> None:
    seen: list[str] = []
    for column in flat.columns:
        tree = view.query.tree
        if why := column_fault(column.name):
            what = f"output column {column.name!r} {why}"
            raise view.query.refuse(what, tree, "rename it with AS")
        if column.name in seen or clash([*seen, column.name]):
            what = f"two output columns are called {column.name}, or differ only in case"
            raise view.query.refuse(what, tree, "give one another name with AS")
        seen.append(column.name)


def _is_star(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Star) or (
        isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star)
    )


def _both(one: Expr | None, other: Expr | None) -> Expr | None:
    if one is None or other is None:
        return other if one is None else one
    return Apply("and", (one, other), BOOL)
