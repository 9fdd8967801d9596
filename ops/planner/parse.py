"""From the text of a pipeline to its plan, or to a refusal with line and column.

    CREATE SOURCE             -> SourcePlan
    CREATE TABLE … FROM …     -> TablePlan
    CREATE MATERIALIZED VIEW  -> ViewPlan

A relation may only refer to those before it. The definition kept of each is its text without
comments and with the values of password-like options masked.

Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ops.common.errors import Unsupported
from ops.common.schema import Column, DataType
from ops.planner.dialect import FromSource, SecretRef, Statement, statements
from ops.planner.names import clash, column_fault, relation_fault
from ops.planner.options import (
    MASK,
    SOURCE_NOT_SECRET,
    SOURCE_OPTIONS,
    SOURCE_REQUIRED,
    TABLE_OPTIONS,
    Check,
    fault,
    is_sensitive,
    names_in,
    nearest,
)
from ops.planner.plan import Option, PipelinePlan, Secret, SourcePlan, TablePlan, ViewPlan
from ops.planner.query import name_of
from ops.planner.types import parse_type
from ops.planner.view import ViewReader

_HOLDS = "a pipeline holds CREATE SOURCE, CREATE TABLE … FROM and CREATE MATERIALIZED VIEW"


def parse_pipeline(name: str, sql: str, path: str = "") -> PipelinePlan:
    try:
        return _parse(name, sql, path)
    except Unsupported as error:
        if path:
            error.args = (f"{path}: {error}",)
        raise


def load_pipelines(texts: Mapping[str, tuple[str, str]]) -> dict[str, PipelinePlan]:
    """Parse each pipeline of `texts`, which maps a name to (path, SQL).

    Slots are compared across pipelines: two readers of one slot would each miss changes.
    """
    plans = {name: parse_pipeline(name, sql, path) for name, (path, sql) in sorted(texts.items())}
    readers: dict[tuple[Option | None, ...], SourcePlan] = {}
    for source in (source for plan in plans.values() for source in plan.sources):
        server = (source.options["hostname"], source.options.get("port", "5432"))
        slot = source.options.get("slot.name") or source.slot
        other = readers.setdefault((*server, slot), source)
        if other is not source:
            raise Unsupported(
                f"sources {other.pipeline}.{other.name} and {source.pipeline}.{source.name} "
                "read the same slot of the same server",
                hint="give each its own slot.name",
            )
    return plans


def _parse(name: str, sql: str, path: str) -> PipelinePlan:
    if why := relation_fault(name):
        raise Unsupported(f"pipeline name {name!r} {why}", hint="rename the file")
    reader = _Reader(name)
    for statement in statements(sql):
        reader.read(statement)
    return PipelinePlan(
        name, tuple(reader.sources), tuple(reader.tables), tuple(reader.views), path
    )


class _Reader:
    """Reads statement after statement; what was read is what the next may refer to."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self.sources: list[SourcePlan] = []
        self.tables: list[TablePlan] = []
        self.views: list[ViewPlan] = []

    def read(self, statement: Statement) -> None:
        words = [t.text.upper() if _is_word(t) else "" for t in statement.tokens[:3]]
        match words:
            case ["CREATE", "SOURCE", *_]:
                self.sources.append(self._source(statement))
            case ["CREATE", "TABLE", *_]:
                self.tables.append(self._table(statement))
            case ["CREATE", "MATERIALIZED", "VIEW"]:
                self.views.append(self._view(statement))
            case _:
                count = 2 if words[0] == "CREATE" else 1
                what = " ".join(filter(None, words[:count])) or "this statement"
                raise statement.refuse(f"{what} is not supported", statement.start, _HOLDS)

    def _source(self, statement: Statement) -> SourcePlan:
        tree = statement.tree()
        name, at = self._new_name(statement, tree.this)
        given = [p for p in _properties(tree) if type(p) is exp.Property]
        options = _options(statement, f"source {name}", given, SOURCE_OPTIONS, SOURCE_NOT_SECRET)
        for option in SOURCE_REQUIRED:
            if option not in options:
                what = f"source {name} has no option {option}"
                raise statement.refuse(what, at, f"add {option} = '…' to its WITH")
        source = SourcePlan(
            pipeline=self.pipeline,
            name=name,
            connector=str(options["connector"]),
            options=options,
            definition=definition(statement, given),
        )
        if (
            "slot.name" not in options
            and fault("slot.name", source.slot, SOURCE_OPTIONS["slot.name"])[1]
        ):
            what = f"source {name} needs a slot.name: {source.slot!r} cannot name a slot"
            raise statement.refuse(what, at, "add slot.name = '…' to its WITH")
        return source

    def _table(self, statement: Statement) -> TablePlan:
        tree = statement.tree()
        listed = tree.this if isinstance(tree.this, exp.Schema) else None
        name, at = self._new_name(statement, listed.this if listed else tree.this)
        origin = next((p for p in _properties(tree) if isinstance(p, FromSource)), None)
        if origin is None:
            what = f"table {name} has no FROM source TABLE 'schema.table'"
            raise statement.refuse(what, at, "tables of a pipeline come from a source")
        if listed is None:
            what = f"table {name} has no column list"
            raise statement.refuse(what, at, "write (*) after its name for all columns")
        source = self._source_of(statement, origin)
        schema, external = _external(statement, origin, source)
        given = [p for p in _properties(tree) if type(p) is exp.Property]
        secret = frozenset(TABLE_OPTIONS)
        options = _options(statement, f"table {name}", given, TABLE_OPTIONS, secret)
        fields: dict[str, Any] = {
            field: convert(str(options[option]))
            for option, (field, convert) in _FIELDS.items()
            if option in options
        }
        text_numerics = options.get("numeric.as") == "text"
        columns, key = _columns(statement, listed, table=name, text_numerics=text_numerics)
        if columns is not None and "columns.exclude" in options:
            what = f"option columns.exclude of table {name} goes with (*) only"
            raise statement.refuse(what, at, "leave the columns out of the list")
        return TablePlan(
            pipeline=self.pipeline,
            name=name,
            source=source.name,
            external_schema=schema,
            external_table=external,
            columns=columns,
            key=key,
            definition=definition(statement, given),
            text_numerics=text_numerics,
            **fields,
        )

    def _view(self, statement: Statement) -> ViewPlan:
        _refuse_around_query(statement)
        tree = statement.tree()
        if not isinstance(tree.args.get("expression"), exp.Expression):
            end = statement.tokens[-1].end + 1
            raise statement.refuse("syntax error: AS SELECT … is expected", end)
        target = tree.this
        if isinstance(target, exp.Schema):
            what = "a column list after the name of a view is not supported"
            raise statement.refuse(what, _start(target.this.this), "name its columns with AS")
        name, _ = self._new_name(statement, target)
        reader = ViewReader(statement, tree.expression, name=name)
        return reader.plan(
            self.pipeline,
            definition=definition(statement, ()),
            vnode_count=self._upstream_of(statement, reader).vnode_count,
        )

    def _upstream_of(self, statement: Statement, reader: ViewReader) -> TablePlan | ViewPlan:
        relations: list[TablePlan | ViewPlan] = [*self.tables, *self.views]
        upstream, known = reader.upstream, {relation.name: relation for relation in relations}
        if upstream in known:
            return known[upstream]
        what = f"view {reader.name} reads {upstream!r}, which is not defined before it"
        if upstream in {source.name for source in self.sources}:
            what = f"view {reader.name} reads {upstream}, a source"
        hint = f"tables and views before it: {', '.join(sorted(known)) or 'none'}"
        raise statement.refuse(what, reader.upstream_at, hint)

    def _source_of(self, statement: Statement, origin: FromSource) -> SourcePlan:
        wanted = name_of(origin.this)
        for source in self.sources:
            if source.name == wanted:
                return source
        known = ", ".join(sorted(source.name for source in self.sources)) or "none"
        what = f"no source is called {wanted!r}"
        raise statement.refuse(what, _start(origin.this), f"sources before it: {known}")

    def _new_name(self, statement: Statement, target: exp.Expr | None) -> tuple[str, int]:
        if not isinstance(target, exp.Table) or not isinstance(target.this, exp.Identifier):
            raise statement.refuse("a name is expected here", statement.start)
        at = _start(target.this)
        if target.args.get("db") is not None:
            what = f"a schema before {name_of(target.this)} has no meaning here"
            raise statement.refuse(what, at, "write the name alone")
        name = name_of(target.this)
        if why := relation_fault(name):
            raise statement.refuse(f"name {name!r} {why}", at)
        relations: list[SourcePlan | TablePlan | ViewPlan] = [
            *self.sources,
            *self.tables,
            *self.views,
        ]
        taken = [relation.name for relation in relations]
        if name in taken:
            raise statement.refuse(f"two relations are called {name}", at, "rename one")
        if found := clash([*taken, name]):
            what = f"relations {found[0]} and {name} differ only in case"
            raise statement.refuse(what, at, "rename one")
        return name, at


def _is_true(value: str) -> bool:
    return value == "true"


_FIELDS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "backfill.parallelism": ("parallelism", int),
    "backfill.num_rows_per_split": ("rows_per_split", int),
    "backfill.as_even_splits": ("even_splits", _is_true),
    "backfill.split_pk_column_index": ("split_column", int),
    "snapshot": ("snapshot", _is_true),
    "snapshot.batch_size": ("page_rows", int),
    "snapshot.filter": ("snapshot_filter", str),
    "vnode_count": ("vnode_count", int),
    "columns.exclude": ("excluded", names_in),
}


def definition(statement: Statement, options: Iterable[exp.Expr]) -> str:
    """Return the statement's text without comments and without what nobody may see."""
    masked = {_start(p.args["value"]) for p in options if _is_masked(p)}
    text, end = "", statement.start
    for token in statement.tokens:
        gap = statement.sql[end : token.start]
        text += gap if not gap.strip() else "\n" if "\n" in gap else " "
        text += MASK if token.start in masked else statement.text(token, token)
        end = token.end + 1
    return text


def _is_masked(option: exp.Expr) -> bool:
    return is_sensitive(str(option.this)) and not isinstance(option.args["value"], SecretRef)


def _options(
    statement: Statement,
    owner: str,
    given: list[exp.Property],
    known: Mapping[str, Check],
    not_secret: frozenset[str],
) -> dict[str, Option]:
    options: dict[str, Option] = {}
    for item in given:
        option, value, at = str(item.this), item.args["value"], _start(item)
        if option not in known:
            what = f"unknown option {option} of {owner}"
            raise statement.refuse(what, at, f"the nearest known is {nearest(option, known)}")
        if option in options:
            raise statement.refuse(f"option {option} of {owner} is given twice", at)
        if isinstance(value, SecretRef):
            if option in not_secret:
                raise statement.refuse(f"option {option} of {owner} cannot be a SECRET", at)
            options[option] = Secret(name_of(value.this))
            continue
        options[option], why = fault(option, value.name, known[option])
        if why:
            raise statement.refuse(why, _start(value))
    return options


def _external(statement: Statement, origin: FromSource, source: SourcePlan) -> tuple[str, str]:
    literal = origin.args["value"]
    schema: Option = source.options.get("schema.name", "public")
    parts = literal.name.split(".")
    if len(parts) > 2 or not all(parts):
        what = f"table {literal.name!r} of source {source.name} is not of the form 'schema.table'"
        raise statement.refuse(what, _start(literal))
    if len(parts) == 2:
        return parts[0], parts[1]
    if isinstance(schema, Secret):
        what = f"table {literal.name!r} needs its schema: schema.name of {source.name} is a SECRET"
        raise statement.refuse(what, _start(literal), "write 'schema.table'")
    return schema, parts[0]


def _columns(
    statement: Statement, listed: exp.Schema, *, table: str, text_numerics: bool
) -> tuple[tuple[Column, ...] | None, tuple[str, ...] | None]:
    if isinstance(listed.expressions[0], exp.Star):
        return None, None
    keys: list[tuple[list[exp.Expr], int]] = []
    columns: list[Column] = []
    for item in listed.expressions:
        if isinstance(item, exp.PrimaryKey):
            keys.append((item.expressions, _start(item)))
            continue
        rules = item.args["constraints"]
        keys += [([item.this], _start(rule)) for rule in rules if _is_key(rule)]
        required = any(isinstance(rule, exp.NotNullColumnConstraint) for rule in rules)
        before = [c.name for c in columns]
        columns.append(_column(statement, item, before, required, text_numerics))
    if not keys:
        what = f"table {table} lists its columns but no PRIMARY KEY"
        raise statement.refuse(what, _start(listed.this.this), "name the source's key")
    if len(keys) > 1:
        raise statement.refuse(f"table {table} has two PRIMARY KEYs", keys[1][1])
    key = tuple(name_of(name) for name in keys[0][0])
    for number, name in enumerate(key):
        if name not in {column.name for column in columns} or name in key[:number]:
            what = f"PRIMARY KEY names {name}, which is not a column or was named before"
            raise statement.refuse(what, _start(keys[0][0][number]))
    return tuple(
        Column(c.name, c.type, nullable=c.nullable and c.name not in key) for c in columns
    ), key


def _column(
    statement: Statement, item: exp.Expr, before: list[str], required: bool, text_numerics: bool
) -> Column:
    name, at = name_of(item.this), _start(item.this)
    if why := column_fault(name):
        raise statement.refuse(f"column {name!r} {why}", at)
    if clash([*before, name]) or name in before:
        raise statement.refuse(f"two columns are called {name}", at)
    data_type = _type(statement, item.args["kind"], name, text_numerics)
    return Column(name, data_type, nullable=not required)


def _type(statement: Statement, kind: exp.Expr, column: str, text_numerics: bool) -> DataType:
    at, end = _start(kind), int(kind.meta["end"])
    written = statement.sql[at : end + 1]
    found = parse_type(written, text_numerics=text_numerics)
    if found is None:
        what = f"type {written} of column {column} does not fit into 38 digits"
        raise statement.refuse(what, at, "keep the numerics as text: numeric.as = 'text'")
    return found


def _refuse_around_query(statement: Statement) -> None:
    """Refuse what may stand before AS and after the query, before sqlglot takes it for a name."""
    words = [token.text.upper() for token in statement.tokens]
    head = words[: words.index("AS")] if "AS" in words else words
    if "WITH" in head:
        at = statement.tokens[head.index("WITH")].start
        raise statement.refuse("options of a view are not supported yet", at)
    for index, token in enumerate(statement.tokens):
        if words[index : index + 4] == ["EMIT", "ON", "WINDOW", "CLOSE"]:
            raise statement.refuse("EMIT ON WINDOW CLOSE is not supported yet", token.start)


def _properties(tree: exp.Expr) -> list[exp.Expr]:
    found = tree.args.get("properties")
    return list(found.expressions) if found is not None else []


def _is_key(rule: exp.Expr) -> bool:
    return isinstance(rule, exp.PrimaryKeyColumnConstraint)


def _is_word(token: Token) -> bool:
    return token.text.isidentifier() and token.token_type is not TokenType.STRING


def _start(tree: exp.Expr) -> int:
    return int(tree.meta["start"])
