"""Which columns a table has, once those of its source are known.

Pure.
"""

from ops.common.errors import SourceNotReady, Unsupported
from ops.common.schema import Column, Schema
from ops.planner.names import clash, column_fault
from ops.planner.plan import TablePlan
from ops.planner.types import is_declared


def bind_table(plan: TablePlan, found: Schema) -> Schema:
    """Return the table's schema, given the columns and the key `found` at the source.

    An explicit list must name each column's type as it is there.
    """
    _require_key(plan, found)
    if plan.columns is None or plan.key is None:
        bound = found
    else:
        if plan.key != found.key:
            raise Unsupported(
                f"table {plan.name} declares PRIMARY KEY ({', '.join(plan.key)}), but that of "
                f"{_external(plan)} is ({', '.join(found.key)})",
                hint="declare the source's key",
            )
        columns = tuple(_bind_column(plan, column, found) for column in plan.columns)
        bound = Schema(columns, found.key)
    if plan.split_column >= len(bound.key):
        raise Unsupported(
            f"table {plan.name}: backfill.split_pk_column_index is {plan.split_column}, but the "
            f"key of {_external(plan)} has {len(bound.key)} columns",
            hint="the first is 0",
        )
    for name in bound.names:
        if why := column_fault(name):
            raise Unsupported(f"column {name!r} of {_external(plan)} {why}", hint=_LIST_HINT)
    if pair := clash(bound.names):
        what = f"columns {pair[0]!r} and {pair[1]!r} of {_external(plan)} differ only in case"
        raise Unsupported(what, hint=_LIST_HINT)
    return bound


_LIST_HINT = "rename it at the source, or list the columns you want instead of (*)"


def _require_key(plan: TablePlan, found: Schema) -> None:
    if not found.key:
        raise SourceNotReady(
            f"{_external(plan)} has no primary key, so its rows cannot be told apart; run "
            f"ALTER TABLE {_external(plan)} ADD PRIMARY KEY (…) at the source"
        )


def _bind_column(plan: TablePlan, wanted: Column, found: Schema) -> Column:
    if wanted.name not in found.names:
        raise Unsupported(
            f"table {plan.name}: {_external(plan)} has no column {wanted.name!r}",
            hint=f"there are: {', '.join(found.names)}",
        )
    there = found.column(wanted.name)
    if not is_declared(wanted.type, there.type):
        raise Unsupported(
            f"table {plan.name}: column {wanted.name} is declared {wanted.type.shown}, "
            f"but is {there.type.shown} in {_external(plan)}",
            hint=f"declare it {there.type.shown}",
        )
    if there.nullable and not wanted.nullable and wanted.name not in found.key:
        raise Unsupported(
            f"table {plan.name}: column {wanted.name} is declared NOT NULL, "
            f"but may be NULL in {_external(plan)}",
            hint="leave NOT NULL out",
        )
    return Column(wanted.name, there.type, there.nullable)


def _external(plan: TablePlan) -> str:
    return f"{plan.external_schema}.{plan.external_table}"
