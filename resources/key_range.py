"""A key range of a Postgres table, judged by Postgres: whatever the key's types and collations are.

A key is the text form of each of its parts, in the order of its columns. It is compared where it
came from, with the operators of its columns' own types, so that nobody else needs to know the
order. A bound may name fewer parts than the key has: it then says nothing about the others.

    key_range(columns, above=("7", "x"), below=("9",))     (a, b) > ('7', 'x') AND a < '9'
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql

Key = tuple[str, ...]

_INTEGERS = frozenset({"int2", "int4", "int8"})
_BY_BYTES = frozenset({"text", "varchar", "uuid"})
_TEXTS = frozenset({"text", "varchar", "bpchar"})


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """`type_schema` and `type_name` are of the type it is compared as: under a domain, its base."""

    name: str
    type_schema: str
    type_name: str
    bytewise: bool
    """No collation but that of the bytes has a say in its order."""

    @property
    def is_integer(self) -> bool:
        return self._is_built_in and self.type_name in _INTEGERS

    @property
    def is_plain(self) -> bool:
        """Whether a value, as a page has it, is its own text form."""
        return self._is_built_in and self.type_name in _INTEGERS | _TEXTS

    @property
    def is_ordered_alike(self) -> bool:
        """Whether its values rise in Spark as they do here: whole numbers, and texts by bytes."""
        by_bytes = self._is_built_in and self.bytewise and self.type_name in _BY_BYTES
        return self.is_integer or by_bytes

    @property
    def _is_built_in(self) -> bool:
        return self.type_schema == "pg_catalog"


def key_range(
    columns: Sequence[KeyColumn],
    *,
    at_least: Key | None = None,
    above: Key | None = None,
    below: Key | None = None,
    at_most: Key | None = None,
) -> sql.Composable:
    """Return the condition of being in the range; TRUE where it has no bound."""
    bounds = [
        _bound(columns, operator, key)
        for operator, key in ((">=", at_least), (">", above), ("<", below), ("<=", at_most))
        if key is not None
    ]
    return sql.SQL(" AND ").join(bounds) if bounds else sql.SQL("TRUE")


def key_order(columns: Sequence[KeyColumn], *table: str) -> sql.Composable:
    """Return what stands after ORDER BY; `table` is what the columns are qualified with."""
    return sql.SQL(", ").join(sql.Identifier(*table, c.name) for c in columns)


def key_texts(columns: Sequence[KeyColumn]) -> list[sql.Composable]:
    """Return what to select beside the columns themselves, so that `last_key` knows the key."""
    return [
        sql.SQL("{}::text AS {}").format(sql.Identifier(c.name), sql.Identifier(_text_name(place)))
        for place, c in enumerate(columns)
        if not c.is_plain
    ]


def last_key(columns: Sequence[KeyColumn], page: pa.Table, texts: pa.Table) -> Key | None:
    """Return the key of a page's last row; `texts` are the columns of `key_texts`, in their order.

    None if there is no row.
    """
    if page.num_rows == 0:
        return None
    last = page.num_rows - 1
    spelled = iter(texts.columns)
    parts = [(page.column(c.name) if c.is_plain else next(spelled))[last].as_py() for c in columns]
    missing = [c.name for c, part in zip(columns, parts, strict=True) if part is None]
    if missing:
        raise ValueError(f"column {missing[0]} is part of a key and NULL")
    return tuple(str(part) for part in parts)


def _bound(columns: Sequence[KeyColumn], operator: str, key: Key) -> sql.Composable:
    if not 1 <= len(key) <= len(columns):
        raise ValueError(f"a key of {len(columns)} columns cannot have the bound {key!r}")
    names = [sql.Identifier(c.name) for c, _ in zip(columns, key, strict=False)]
    values = [_literal(c, text) for c, text in zip(columns, key, strict=False)]
    template = "{} {} {}" if len(key) == 1 else "({}) {} ({})"
    comma = sql.SQL(", ")
    return sql.SQL(template).format(comma.join(names), sql.SQL(operator), comma.join(values))


def _literal(column: KeyColumn, text: str) -> sql.Composable:
    # Without the length or precision of the column's type, which would cut what it compares.
    return sql.SQL("{}::{}").format(
        sql.Literal(text), sql.Identifier(column.type_schema, column.type_name)
    )


def _text_name(place: int) -> str:
    return f"_tg_key_{place}"
