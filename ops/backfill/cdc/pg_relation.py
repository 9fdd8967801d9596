"""Relation messages: what a table's columns are from here on, and whether that is what was bound.

    moved     columns were added, dropped or renamed, and no more: that can be followed (`evolve`)
    misfit    anything else that is not as it was bound: the table stops

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct

from ops.backfill.cdc.pg_values import SourceType, keeps_values, type_of
from ops.common.schema import Schema

TableName = tuple[str, str]
"""(schema, table)"""

_OID = Struct(">I").unpack_from
_RELATION_TAIL = Struct(">BH").unpack_from
_COLUMN_TAIL = Struct(">Ii").unpack_from


@dataclass(frozen=True, slots=True)
class Binding:
    """A table as it was when it was bound; what is None is taken from its first Relation message.

    `unselected` are the source's columns that the table leaves out: any other one it does not
    know was added since.
    """

    schema: Schema
    oid: int | None = None
    identity: str | None = None
    unselected: frozenset[str] = frozenset()
    types: Mapping[str, SourceType] | None = None
    """What the columns' types are at the source."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What columns are called at the source, where that is not their name here."""
    order: tuple[str, ...] = ()
    """The columns in the order of the source's: another order means other columns."""
    absent: tuple[str, ...] = ()
    """Columns that come later than the rows to be read: these have their defaults."""

    def shown(self, name: str) -> str:
        return self.names.get(name, name)


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """A Relation message as sent: columns are (is in the identity, name, type, modifier)."""

    oid: int
    table: TableName
    identity: str
    columns: tuple[tuple[bool, str, int, int], ...]


def moved(relation: RelationMessage, bound: Binding) -> str | None:
    """Return in what the columns of the very table that was bound are others than before."""
    if (bound.oid or relation.oid, bound.identity or relation.identity) != (
        relation.oid,
        relation.identity,
    ):
        return None
    sent = [name for _, name, _, _ in relation.columns]
    ours = [bound.shown(name) for name in bound.schema.names if name not in bound.absent]
    for name in ours:
        if name not in sent:
            return f"column {name} is gone or renamed"
    added = [name for name in sent if name not in ours and name not in bound.unselected]
    if added:
        return f"column {', '.join(added)} was added"
    in_order = [bound.shown(name) for name in bound.order if name not in bound.absent]
    if bound.order and [name for name in sent if name in ours] != in_order:
        return "columns have exchanged their names"
    return None


def misfit(relation: RelationMessage, bound: Binding) -> str | None:
    """Return why rows of this relation are not rows of the bound table, None if they are."""
    if bound.oid is not None and bound.oid != relation.oid:
        return f"it was dropped and made again (oid {bound.oid}, now {relation.oid})"
    if bound.identity is not None and bound.identity != relation.identity:
        return f"its replica identity changed from {bound.identity!r} to {relation.identity!r}"
    sent = {name: (oid, modifier) for _, name, oid, modifier in relation.columns}
    for column in bound.schema.columns:
        shown = bound.shown(column.name)
        if shown not in sent:
            continue
        found = sent[shown]
        is_now = type_of(*found)
        bound_to = None if bound.types is None else bound.types[column.name]
        if is_now == column.type if bound_to is None else keeps_values(bound_to, found):
            continue
        if is_now is None or is_now == column.type:
            return f"column {shown} has another type now"
        return f"column {shown} was {column.type.shown} and is now {is_now}"
    if relation.identity == "n":
        return "its replica identity is NOTHING: updates and deletes are not published"
    identifying = {name for is_key, name, _, _ in relation.columns if is_key}
    key = [bound.shown(name) for name in bound.schema.key]
    # Under FULL every column is marked; the key is then whatever was bound.
    if relation.identity != "f" and identifying != set(key):
        now = ", ".join(sorted(identifying)) or "nothing"
        return f"its key was ({', '.join(key)}) and is now ({now})"
    return None


def parse_relation(message: bytes) -> RelationMessage:
    (oid,) = _OID(message, 1)
    namespace, position = text_at(message, 5)
    name, position = text_at(message, position)
    identity, count = _RELATION_TAIL(message, position)
    position += 3
    columns = []
    for _ in range(count):
        is_key = bool(message[position] & 1)
        column, position = text_at(message, position + 1)
        type_oid, modifier = _COLUMN_TAIL(message, position)
        position += 8
        columns.append((is_key, column, type_oid, modifier))
    return RelationMessage(oid, (namespace or "pg_catalog", name), chr(identity), tuple(columns))


def text_at(message: bytes, position: int) -> tuple[str, int]:
    end = message.index(b"\0", position)
    return message[position:end].decode(), end + 1
