"""The parsed query of a view, and where in the text each part of it stands.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from ops.planner.dialect import Statement
from ops.planner.names import fold


@dataclass(frozen=True, slots=True)
class Cte:
    """A WITH query and the WITH queries it may read itself: those before it."""

    query: exp.Expr
    around: "Ctes"


Ctes = Mapping[str, Cte]


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """`statement` is for places in the text only; two queries are the same if their trees are."""

    view: str
    tree: exp.Select
    statement: Statement = field(compare=False, repr=False)

    def refuse(self, what: str, tree: exp.Expr, hint: str = "") -> Exception:
        return self.statement.refuse(f"view {self.view}: {what}", self.at(tree), hint)

    def at(self, tree: exp.Expr) -> int:
        """Return where the tree begins, or what it stands in if it holds no word with a place."""
        around: exp.Expr | None = tree
        while around is not None:
            starts = [int(n.meta["start"]) for n in around.walk() if "start" in n.meta]
            if starts:
                return min(starts)
            around = around.parent
        return self.statement.start

    def word(self, tree: exp.Expr) -> str:
        """Return the word at which the tree begins, as written."""
        at = self.at(tree)
        return next((t.text for t in self.statement.tokens if t.start == at), "")


def ctes_of(select: exp.Select, around: Ctes) -> Ctes:
    """Return the WITH queries that FROM of this SELECT may name."""
    found = dict(around)
    with_ = select.args.get("with_")
    for cte in with_.expressions if with_ is not None else ():
        found[name_of(cte.args["alias"].this)] = Cte(cte.this, dict(found))
    return found


def source_of(select: exp.Select, around: Ctes) -> tuple[exp.Expr, Ctes] | exp.Expr:
    """Return the query that a SELECT reads with what that one may name, or the table it reads."""
    ctes, source = ctes_of(select, around), select.args["from_"].this
    if isinstance(source, exp.Subquery):
        return source.this, ctes
    named = ctes.get(name_of(source.this)) if isinstance(source.this, exp.Identifier) else None
    return source if named is None else (named.query, named.around)


def alias_of(select: exp.Select) -> str | None:
    """Return the name by which columns of FROM may be qualified."""
    source = select.args["from_"].this
    alias = source.args.get("alias")
    if alias is not None:
        return name_of(alias.this)
    return None if isinstance(source, exp.Subquery) else name_of(source.this)


def name_of(identifier: exp.Expr) -> str:
    return fold(identifier.name, quoted=bool(identifier.args.get("quoted")))
