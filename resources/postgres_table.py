"""A source's table as its catalog tells it, or a refusal with the statement to run.

Its columns' types are those of `ops.common.schema`, which has a place for every type but numerics
of more than 38 digits. The key is what identifies a row in the stream: the primary key under
REPLICA IDENTITY DEFAULT or FULL, the index's columns under USING INDEX.
"""

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from resources.postgres_link import Session, SourceRefused

TYPES = {
    21: "int2",
    23: "int4",
    20: "int8",
    700: "float4",
    701: "float8",
    25: "text",
    1043: "text",
    1042: "text",
    16: "bool",
    17: "bytea",
    1082: "date",
    1114: "timestamp",
    1184: "timestamptz",
}
NUMERIC = 1700
KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    name: str
    type: str
    """In our words, as `ops.common.schema.DataType.parse` reads them."""
    nullable: bool
    attnum: int
    type_oid: int
    modifier: int
    """Of the column itself, so a domain's own: what the stream says of it."""


@dataclass(frozen=True, slots=True)
class TableDescription:
    schema: str
    table: str
    oid: int
    columns: tuple[ColumnDescription, ...]
    unselected: tuple[str, ...]
    """The source's columns that were not asked for, or are generated."""
    generated: tuple[str, ...]
    """The source computes these; the stream does not bring them."""
    key: tuple[str, ...]
    identity: str
    """Replica identity: d(efault), f(ull) or i(ndex)."""
    relkind: str
    rowsecurity: bool
    estimated_rows: int | None
    """None if the table was never analysed."""


def describe(
    session: Session,
    schema: str,
    table: str,
    *,
    columns: Sequence[str] | None,
    excluded: Collection[str],
    text_numerics: bool,
) -> TableDescription:
    """Return the table with all its columns but some, or the named ones; refuse what cannot be.

    With `text_numerics` every numeric column is kept as the text Postgres prints.
    """
    name = quoted(schema, table)
    found = session.row("select_table", schema=schema, table=table)
    if found is None:
        raise SourceRefused(_not_found(session, schema, table))
    _refuse_kind(name, found)
    _refuse_rights(session, name, schema, found)
    key = tuple(row["name"] for row in session.rows("select_key", oid=found["oid"]))
    if not key or found["identity"] == "n":
        raise SourceRefused(_no_key(session, name, found))
    there = session.rows("select_columns", oid=found["oid"])
    if kept := [column for column in excluded if column in key]:
        raise SourceRefused(f"column {kept[0]} of {name} is part of its key and cannot be left out")
    chosen = _choose(name, there, columns, excluded)
    _refuse_generated_key(name, there, key)
    return TableDescription(
        schema=schema,
        table=table,
        oid=found["oid"],
        columns=tuple(_column(session, name, row, text_numerics) for row in chosen),
        unselected=tuple(row["name"] for row in there if row not in chosen),
        generated=tuple(row["name"] for row in there if row["generated"]),
        key=key,
        identity=found["identity"],
        relkind=found["relkind"],
        rowsecurity=found["rowsecurity"],
        estimated_rows=int(found["reltuples"]) if found["reltuples"] >= 0 else None,
    )


def type_name(row: dict[str, Any], *, text_numerics: bool) -> str | None:
    """Return our word for the type of a column, None for a numeric too wide for ours."""
    oid, name = row["base_oid"], row["type_name"]
    if oid == NUMERIC and not text_numerics:
        return numeric_name(row["base_modifier"])
    if oid in TYPES:
        return TYPES[oid]
    return f"text({name})" if row["sends_text"] else f"other({name})"


def numeric_name(modifier: int) -> str | None:
    if modifier < 0:
        return "numeric(38,18)"
    precision = (modifier - 4) >> 16 & 0xFFFF
    scale = ((modifier - 4 & 0x7FF) ^ 1024) - 1024
    # Zeros before the point, or right after it, that Postgres does not count as digits.
    precision, scale = max(precision, scale, precision - scale), max(scale, 0)
    return f"numeric({precision},{scale})" if precision <= 38 else None


def quoted(*names: str) -> str:
    return sql.Identifier(*names).as_string(None)


def _refuse_kind(name: str, found: dict[str, Any]) -> None:
    if found["relkind"] in KINDS:
        raise SourceRefused(
            f"{name} is {KINDS[found['relkind']]}; only tables have a change stream"
        )
    if found["relkind"] == "p":
        raise SourceRefused(
            f"{name} is partitioned, which is not supported yet; name its partitions one by one"
        )
    if found["persistence"] != "p":
        raise SourceRefused(
            f"{name} is unlogged or temporary, so its changes are in no stream; "
            f"run: ALTER TABLE {name} SET LOGGED"
        )


def _refuse_rights(session: Session, name: str, schema: str, found: dict[str, Any]) -> None:
    if not found["may_use_schema"]:
        user = quoted(_user(session))
        raise SourceRefused(
            f"{name} cannot be read; run: GRANT USAGE ON SCHEMA {quoted(schema)} TO {user}"
        )
    if found["rows_hidden"]:
        user = quoted(_user(session))
        raise SourceRefused(
            f"row security hides rows of {name} from {user}, but the stream shows them; "
            f"run: ALTER ROLE {user} BYPASSRLS"
        )


def _no_key(session: Session, name: str, found: dict[str, Any]) -> str:
    if found["identity"] == "n":
        return (
            f"{name} has REPLICA IDENTITY NOTHING, so updates and deletes are not published; "
            f"run: ALTER TABLE {name} REPLICA IDENTITY DEFAULT"
        )
    indexes = session.rows("select_key_candidates", oid=found["oid"])
    if indexes:
        way = f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX {quoted(indexes[0]['name'])}"
        return f"{name} has no primary key that identifies its rows in the stream; run: {way}"
    return (
        f"{name} has no primary key and no unique index on NOT NULL columns (a DEFERRABLE one "
        f"does not count); run: ALTER TABLE {name} ADD PRIMARY KEY (…)"
    )


def _choose(
    name: str,
    there: list[dict[str, Any]],
    columns: Sequence[str] | None,
    excluded: Collection[str],
) -> list[dict[str, Any]]:
    by_name = {row["name"]: row for row in there}
    for column in [*(columns or ()), *excluded]:
        if column not in by_name:
            near = ", ".join(difflib.get_close_matches(column, by_name, cutoff=0.5) or by_name)
            raise SourceRefused(f"{name} has no column {column!r}; there are: {near}")
    if columns is None:
        return [r for r in there if not r["generated"] and r["name"] not in excluded]
    return [by_name[column] for column in columns]


def _refuse_generated_key(name: str, there: list[dict[str, Any]], key: Sequence[str]) -> None:
    for row in there:
        if row["generated"] and row["name"] in key:
            raise SourceRefused(
                f"column {row['name']} of {name} is generated, so the stream does not bring it, "
                f"and it is part of the key; make a unique index on other columns and run: "
                f"ALTER TABLE {name} REPLICA IDENTITY USING INDEX …"
            )


def _column(
    session: Session, name: str, row: dict[str, Any], text_numerics: bool
) -> ColumnDescription:
    if row["generated"]:
        raise SourceRefused(
            f"column {row['name']} of {name} is generated, so the stream does not bring it; "
            "leave it out and compute it in a view"
        )
    if not row["may_select"]:
        user = quoted(_user(session))
        raise SourceRefused(
            f"column {row['name']} of {name} cannot be read; run: GRANT SELECT ON {name} TO {user}"
        )
    ours = type_name(row, text_numerics=text_numerics)
    if ours is None:
        raise SourceRefused(
            f"column {row['name']} of {name} has type {row['type']}, which has no place in 38 "
            "digits; leave it out by listing the other columns, or keep the numeric columns of "
            "this table as text with numeric.as = 'text'"
        )
    return ColumnDescription(
        row["name"], ours, row["nullable"], row["attnum"], row["type_oid"], row["modifier"]
    )


def _not_found(session: Session, schema: str, table: str) -> str:
    names = [row["name"] for row in session.rows("select_table_names")]
    near = difflib.get_close_matches(f"{schema}.{table}", names, n=5, cutoff=0.4) or names[:5]
    there = ", ".join(near) if near else "no table at all"
    return f"there is no table {schema}.{table}; near names: {there}"


def _user(session: Session) -> str:
    return str(session.the_row("select_server")["username"])
