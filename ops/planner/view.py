"""Which queries a view may be: one SELECT over one table or view, after flattening.

    [WITH x AS (…)] SELECT [DISTINCT] … FROM table | view | x | (SELECT …) [AS y]
    [WHERE …] [GROUP BY …] [HAVING …]

Everything a tree carries beyond that is refused by name. The check goes by what is allowed, so that
a clause nobody thought of is refused too and never dropped. Names and types are for `bind_view`:
which columns there are is not known before the source has been asked.

Pure.
"""

from collections.abc import Collection, Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from ops.planner.dialect import Statement, outside_parentheses
from ops.planner.plan import ViewPlan
from ops.planner.query import Ctes, ViewQuery, ctes_of, name_of, source_of

_CLAUSES: Mapping[str, tuple[str, tuple[TokenType, ...]]] = {
    "into": ("INTO", (TokenType.INTO,)),
    "joins": ("JOIN", (TokenType.JOIN, TokenType.COMMA)),
    "laterals": ("LATERAL", (TokenType.LATERAL,)),
    "windows": ("WINDOW", (TokenType.WINDOW,)),
    "order": ("ORDER BY", (TokenType.ORDER_BY,)),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    "offset": ("OFFSET", (TokenType.OFFSET,)),
    "locks": ("FOR UPDATE", (TokenType.FOR,)),
}
_ALLOWED = {"expressions", "from_", "where", "group", "having", "distinct", "with_"}
_SET_OPERATIONS = (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT)
_GROUPINGS = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}
_ENDS_LIST = frozenset(
    {TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.R_PAREN}
)
_INEXACT = {
    "date_part": "write extract(… FROM …): date_part answers in floating point",
}


class ViewReader:
    """Reads one CREATE MATERIALIZED VIEW statement; made only if the query has our shape."""

    def __init__(self, statement: Statement, query: exp.Expr, *, name: str) -> None:
        self.statement, self.name = statement, name
        tops = outside_parentheses(statement.tokens)
        start = next((i for i, t in tops if t.token_type is TokenType.ALIAS), 0) + 1
        self.body = statement.tokens[start:]
        self._refuse_words()
        select = self._plain_select(query, top=True)
        self.query = ViewQuery(name, select, statement)
        table = self._base(select, {})
        self.upstream = name_of(table.this)
        self.upstream_at = int(table.this.meta["start"])

    def plan(self, pipeline: str, *, definition: str, vnode_count: int) -> ViewPlan:
        return ViewPlan(pipeline, self.name, self.upstream, self.query, definition, vnode_count)

    def _refuse_words(self) -> None:
        """Refuse what sqlglot reads over: a comma that nothing follows, inexact synonyms."""
        for token, after in zip(self.body, [*self.body[1:], None], strict=True):
            follows = None if after is None else after.token_type
            if token.token_type is TokenType.COMMA and (follows is None or follows in _ENDS_LIST):
                raise self.statement.refuse("syntax error: a column is missing", token.start)
            if follows is TokenType.L_PAREN and token.text.lower() in _INEXACT:
                word = token.text.lower()
                raise self._refuse(f"the function {word}", token.start, _INEXACT[word])

    def _base(self, select: exp.Select, around: Ctes) -> exp.Table:
        """Check a SELECT and what it reads, down to the table, which is returned."""
        self._check_with(select, around)
        source = select.args["from_"].this
        if isinstance(source, exp.Subquery):
            for arg in _extra(source, {"this", "alias"}):
                raise self._refuse(arg.strip("_").upper(), self._at_tree(source))
            if source.args.get("alias") and _extra(source.args["alias"], {"this"}):
                raise self._refuse("a column list after an alias", self._at_tree(source))
        else:
            self._check_table(source)
        found = source_of(select, around)
        if isinstance(found, tuple):
            return self._base(self._plain_select(found[0]), found[1])
        assert isinstance(found, exp.Table)
        return found

    def _check_with(self, select: exp.Select, around: Ctes) -> None:
        with_ = select.args.get("with_")
        if with_ is None:
            return
        for arg in _extra(with_, {"expressions"}):
            raise self._refuse(f"WITH {arg.upper()}", self._at_tree(with_))
        seen: list[str] = []
        for cte in with_.expressions:
            alias, at = cte.args["alias"], self._at_tree(cte.args["alias"])
            for arg in [*_extra(cte, {"this", "alias"}), *_extra(alias, {"this"})]:
                raise self._refuse(f"WITH … {arg.upper()}", at)
            if name_of(alias.this) in seen:
                what = f"two WITH queries are called {name_of(alias.this)}"
                raise self.statement.refuse(what, at, "rename one")
            seen.append(name_of(alias.this))
        for cte in ctes_of(select, around).values():
            if cte.query.parent is not None and cte.query.parent.parent is with_:
                self._base(self._plain_select(cte.query), cte.around)

    def _plain_select(self, query: exp.Expr, *, top: bool = False) -> exp.Select:
        if not isinstance(query, exp.Select):
            words = query.key.upper() if isinstance(query, exp.SetOperation) else "this query"
            raise self._refuse(words, self._at(_SET_OPERATIONS) if top else self._at_tree(query))
        for arg in _extra(query, _ALLOWED):
            words, kinds = _CLAUSES.get(arg, (arg.strip("_").upper(), ()))
            # A comma is a join only after FROM.
            start = self._find((TokenType.FROM,)) if arg == "joins" else 0
            at = self._at(kinds, start) if top else self._at_tree(query)
            raise self._refuse(words, at)
        if query.args.get("from_") is None:
            raise self._refuse("a SELECT without FROM", self._at_tree(query, top))
        if query.args.get("distinct") is not None and query.args["distinct"].args.get("on"):
            raise self._refuse("DISTINCT ON", self._at_tree(query, top))
        self._check_group(query)
        return query

    def _check_group(self, query: exp.Select) -> None:
        group = query.args.get("group")
        if group is None:
            return
        start = self.body[self._find((TokenType.GROUP_BY,))].start
        for kind, words in _GROUPINGS.items():
            if group.find(kind):
                named = (t for t in self.body if t.text.upper().startswith(words.split(" ")[0]))
                raise self._refuse(words, next(named, self.body[0]).start)
        for arg in _extra(group, {"expressions"}):
            raise self._refuse(f"GROUP BY {arg.upper()}", start)

    def _check_table(self, table: exp.Expr) -> None:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise self._refuse("FROM of anything but a table", self._at_tree(table))
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

    def _refuse(self, what: str, at: int, hint: str = "") -> Exception:
        return self.statement.refuse(f"{what} is not supported yet in view {self.name}", at, hint)

    def _find(self, kinds: Collection[TokenType], start: int = 0) -> int:
        """Return the index of the first token of these kinds outside parentheses, or 0."""
        tops = outside_parentheses(self.body[start:])
        return next((start + i for i, t in tops if t.token_type in kinds), 0)

    def _at(self, kinds: Collection[TokenType], start: int = 0) -> int:
        return int(self.body[self._find(kinds, start)].start)

    def _at_tree(self, tree: exp.Expr, top: bool = False) -> int:
        starts = [int(n.meta["start"]) for n in tree.walk() if "start" in n.meta]
        return int(self.body[0].start) if top or not starts else min(starts)


def _extra(tree: exp.Expr, allowed: set[str]) -> list[str]:
    """Return the names of the arguments that are set and not allowed, in the order of the text."""
    order = list(_CLAUSES)
    extra = [arg for arg, value in tree.args.items() if value and arg not in allowed]
    return sorted(extra, key=lambda arg: order.index(arg) if arg in order else len(order))
