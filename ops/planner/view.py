"""What a view's SELECT may hold: grouping columns, count(*), count(x), sum(x), one FROM, GROUP BY.

Everything a tree carries beyond that is refused by name. The check goes by what is allowed, so that
a clause nobody thought of is refused too and never dropped.

GROUP BY names columns of the upstream or positions in the SELECT list, not aliases: whether a name
is an alias or a column would depend on columns that are unknown before binding.

Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ops.planner.dialect import Statement, comma_parts, outside_parentheses
from ops.planner.names import clash, column_fault, fold, hidden_key
from ops.planner.plan import AggCall, AggKind, ViewPlan

_ALLOWED_HINT = "a view selects grouping columns, count(*), count(column) and sum(column)"
_CLAUSES: Mapping[str, tuple[str, tuple[TokenType, ...]]] = {
    "with_": ("WITH", (TokenType.WITH,)),
    "distinct": ("SELECT DISTINCT", (TokenType.DISTINCT,)),
    "into": ("INTO", (TokenType.INTO,)),
    "joins": ("JOIN", (TokenType.JOIN, TokenType.COMMA)),
    "laterals": ("LATERAL", (TokenType.LATERAL,)),
    "where": ("WHERE", (TokenType.WHERE,)),
    "having": ("HAVING", (TokenType.HAVING,)),
    "windows": ("WINDOW", (TokenType.WINDOW,)),
    "order": ("ORDER BY", (TokenType.ORDER_BY,)),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    "offset": ("OFFSET", (TokenType.OFFSET,)),
    "locks": ("FOR UPDATE", (TokenType.FOR,)),
}
_SET_OPERATIONS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_GROUPINGS = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}


@dataclass(frozen=True, slots=True)
class _Item:
    """One entry of a list: its tree and its tokens, or the list's first token if they got lost."""

    tree: exp.Expr
    tokens: tuple[Token, ...]

    @property
    def at(self) -> int:
        return int(self.tokens[0].start)


@dataclass(frozen=True, slots=True)
class _Selected:
    """A SELECT item: a plain column (`call` is None), or an aggregate over `column`."""

    call: AggKind | None
    column: str | None
    output: str
    at: int


class ViewReader:
    """Reads one CREATE MATERIALIZED VIEW statement; made only if the query has our shape."""

    def __init__(self, statement: Statement, query: exp.Expr, *, name: str) -> None:
        self.statement, self.name = statement, name
        tops = outside_parentheses(statement.tokens)
        start = next((i for i, t in tops if t.token_type is TokenType.ALIAS), 0) + 1
        self.body = statement.tokens[start:]
        self.query = self._plain_select(query)
        table = self._one_table(self.query)
        alias = table.args.get("alias")
        self.upstream = name_of(table.this)
        self.upstream_at = int(table.this.meta["start"])
        self.qualifier = self.upstream if alias is None else name_of(alias.this)

    def plan(self, pipeline: str, *, definition: str, vnode_count: int) -> ViewPlan:
        chosen = [self._selected(item) for item in self._items(self.query.expressions)]
        grouped = self._grouped(chosen)
        self._refuse_ungrouped(chosen, grouped)
        self._refuse_clashes(chosen)
        shown = {item.column: item.output for item in chosen if item.call is None}
        return ViewPlan(
            pipeline=pipeline,
            name=self.name,
            upstream=self.upstream,
            keys=tuple((column, shown.get(column, hidden_key(column))) for column in grouped),
            calls=tuple(
                AggCall(item.call, item.column, item.output) for item in chosen if item.call
            ),
            outputs=tuple(item.output for item in chosen),
            definition=definition,
            vnode_count=vnode_count,
        )

    def _plain_select(self, query: exp.Expr) -> exp.Select:
        if not isinstance(query, exp.Select):
            words = query.key.upper() if isinstance(query, exp.SetOperation) else "this query"
            raise self._refuse(words, self._at(_SET_OPERATIONS))
        for arg in _extra(query, {"expressions", "from_", "group"}):
            words, kinds = _CLAUSES.get(arg, (arg.strip("_").upper(), ()))
            # A comma is a join only after FROM.
            start = self._find((TokenType.FROM,)) if arg == "joins" else 0
            raise self._refuse(words, self._at(kinds, start))
        if query.args.get("from_") is None:
            raise self._refuse("a SELECT without FROM", self.body[0].start)
        if query.args.get("group") is None:
            raise self._refuse("a query without GROUP BY", self.body[0].start)
        return query

    def _one_table(self, query: exp.Select) -> exp.Table:
        table = query.args["from_"].this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            place = self.body[self._find((TokenType.FROM,)) + 1]
            raise self._refuse("FROM of anything but a table", place.start)
        at = int(table.this.meta["start"])
        if table.args.get("db") is not None:
            what = f"a schema before {name_of(table.this)} has no meaning here"
            raise self.statement.refuse(what, at, "write the name alone")
        for arg in _extra(table, {"this", "alias"}):
            words = {"joins": "JOIN", "sample": "TABLESAMPLE", "only": "FROM ONLY"}.get(arg, arg)
            raise self._refuse(words, at)
        alias = table.args.get("alias")
        if alias is not None and _extra(alias, {"this"}):
            raise self._refuse("a column list after an alias", at)
        return table

    def _selected(self, item: _Item) -> _Selected:
        tree, alias = item.tree, None
        if isinstance(tree, exp.Alias):
            tree, alias = tree.this, name_of(tree.args["alias"])
        match tree:
            case exp.Column(this=exp.Identifier()):
                column = self._column(tree, item.at)
                return _Selected(None, column, self._output(alias or column, item), item.at)
            case exp.Count() | exp.Sum():
                kind = AggKind.COUNT if isinstance(tree, exp.Count) else AggKind.SUM
                argument = self._argument(kind, tree, item)
                return _Selected(kind, argument, self._output(alias or kind.value, item), item.at)
        raise self._refuse(self._describe(tree, item), item.at, _ALLOWED_HINT)

    def _argument(self, kind: AggKind, call: exp.Expr, item: _Item) -> str | None:
        argument = call.this
        match argument:
            case exp.Star() if kind is AggKind.COUNT and not _extra(argument, set()):
                if not _extra(call, {"this", "big_int"}):
                    return None
            case exp.Column(this=exp.Identifier()) if not _extra(call, {"this", "big_int"}):
                return self._column(argument, item.at)
            case exp.Distinct():
                raise self._refuse(f"{kind}(DISTINCT …)", item.at, _ALLOWED_HINT)
            case exp.Order():
                raise self._refuse(f"ORDER BY inside {kind}", item.at, _ALLOWED_HINT)
        shown = self.statement.text(item.tokens[0], item.tokens[-1])
        raise self._refuse(f"{kind} of anything but one column ({shown})", item.at, _ALLOWED_HINT)

    def _column(self, column: exp.Column, at: int) -> str:
        if _extra(column, {"this", "table"}):
            raise self._refuse(f"the reference {column.sql()}", at)
        table = column.args.get("table")
        if table is not None and name_of(table) != self.qualifier:
            raise self.statement.refuse(
                f"{name_of(table)} is not in FROM", at, f"write {self.qualifier} before the dot"
            )
        return name_of(column.this)

    def _output(self, name: str, item: _Item) -> str:
        if why := column_fault(name):
            raise self.statement.refuse(
                f"output column {name!r} {why}", item.at, "rename it with AS"
            )
        return name

    def _grouped(self, chosen: list[_Selected]) -> list[str]:
        """Return the grouping columns in GROUP BY order, each once."""
        group = self.query.args["group"]
        start = self._find((TokenType.GROUP_BY,))
        for kind, words in _GROUPINGS.items():
            if group.find(kind):
                named = (t for t in self.body if t.text.upper().startswith(words.split(" ")[0]))
                raise self._refuse(words, next(named, self.body[start]).start)
        for arg in _extra(group, {"expressions"}):
            raise self._refuse(f"GROUP BY {arg.upper()}", self.body[start].start)
        columns = [
            self._grouping_column(item, chosen) for item in self._items(group.expressions, start)
        ]
        return list(dict.fromkeys(columns))

    def _grouping_column(self, item: _Item, chosen: list[_Selected]) -> str:
        tree = item.tree
        if isinstance(tree, exp.Column) and isinstance(tree.this, exp.Identifier):
            return self._column(tree, item.at)
        if isinstance(tree, exp.Literal) and not tree.is_string and tree.name.isdigit():
            place = int(tree.name)
            if not 1 <= place <= len(chosen):
                what = f"GROUP BY position {place} is not in the SELECT list"
                raise self.statement.refuse(what, item.at, f"it has {len(chosen)} columns")
            target = chosen[place - 1]
            if target.call is not None or target.column is None:
                what = f"GROUP BY position {place} is an aggregate"
                raise self.statement.refuse(what, item.at, "group by columns")
            return target.column
        what = f"GROUP BY of {self._describe(tree, item)}"
        raise self._refuse(what, item.at, "group by columns, by name or position")

    def _refuse_ungrouped(self, chosen: list[_Selected], grouped: list[str]) -> None:
        seen: set[str] = set()
        for item in chosen:
            if item.call is not None or item.column is None:
                continue
            if item.column not in grouped:
                what = f"column {item.column} is selected but neither grouped nor aggregated"
                hint = f"write GROUP BY {item.column}: aliases are not looked at"
                hint = hint if item.output in grouped else f"add {item.column} to GROUP BY"
                raise self.statement.refuse(what, item.at, hint)
            if item.column in seen:
                what = f"grouping column {item.column} is selected twice"
                raise self.statement.refuse(what, item.at, "select it once")
            seen.add(item.column)
        if not any(item.call for item in chosen):
            raise self._refuse("a query without an aggregate", self.body[0].start, _ALLOWED_HINT)

    def _refuse_clashes(self, chosen: list[_Selected]) -> None:
        for number, item in enumerate(chosen):
            before = [other.output for other in chosen[:number]]
            if item.output in before:
                what = f"two output columns are called {item.output}"
            elif clash([*before, item.output]):
                what = f"output columns differ from {item.output!r} only in case"
            else:
                continue
            raise self.statement.refuse(what, item.at, "give one another name with AS")

    def _items(self, trees: list[exp.Expr], start: int = 0) -> Iterator[_Item]:
        """Yield each tree of the list that begins after the token at `start`, with its tokens."""
        parts = comma_parts(self.body[start + 1 :], stop=TokenType.FROM)
        for number, part in enumerate(parts):
            if not part:
                before = parts[number - 1][-1] if number else self.body[start]
                raise self.statement.refuse("syntax error: a column is missing", before.end + 1)
        lost = len(parts) != len(trees)
        for number, tree in enumerate(trees):
            yield _Item(tree, (self.body[start],) if lost else parts[number])

    def _describe(self, tree: exp.Expr, item: _Item) -> str:
        match tree:
            case exp.Star() | exp.Column(this=exp.Star()):
                return "SELECT *"
            case exp.Filter():
                return "FILTER"
            case exp.WithinGroup():
                return "WITHIN GROUP"
            case exp.Window():
                return "a window function (OVER)"
            case exp.Subquery() | exp.Select():
                return "a subquery"
            case exp.AggFunc() | exp.Anonymous():
                return f"the function {item.tokens[0].text.lower()}"
        return f"the expression {self.statement.text(item.tokens[0], item.tokens[-1])!r}"

    def _refuse(self, what: str, at: int, hint: str = "") -> Exception:
        return self.statement.refuse(f"{what} is not supported yet in view {self.name}", at, hint)

    def _find(self, kinds: Collection[TokenType], start: int = 0) -> int:
        """Return the index of the first token of these kinds outside parentheses, or 0."""
        tops = outside_parentheses(self.body[start:])
        return next((start + i for i, t in tops if t.token_type in kinds), 0)

    def _at(self, kinds: Collection[TokenType], start: int = 0) -> int:
        return int(self.body[self._find(kinds, start)].start)


def name_of(identifier: exp.Expr) -> str:
    return fold(identifier.name, quoted=bool(identifier.args.get("quoted")))


def _extra(tree: exp.Expr, allowed: set[str]) -> list[str]:
    """Return the names of the arguments that are set and not allowed, in the order of the text."""
    order = list(_CLAUSES)
    extra = [arg for arg, value in tree.args.items() if value and arg not in allowed]
    return sorted(extra, key=lambda arg: order.index(arg) if arg in order else len(order))
