"""Postgres's logical replication messages (pgoutput, protocol version 1) -> events.

    B  Begin      start of a transaction          -> Begin
    C  Commit     its end                         -> Commit
    R  Relation   before a table's first rows,    -> RelationChanged if it no longer fits
                  and again after DDL
    I U D         a row                           -> RowChange, or Poisoned
    T  Truncate                                   -> Truncated
    M  Message    pg_logical_emit_message         -> LogicalMessage
    Y O           a type, an origin               -> nothing

The slot must be read with `messages 'true'`, in binary or as text, under the settings of our
sessions. A table that is not bound costs one look-up per row. After RelationChanged or Poisoned a
table's rows are skipped until it is bound again; the other tables go on. Values are described in
`pg_values`.

    before                        identity DEFAULT or INDEX     identity FULL
    update, key not changed       None                          the whole row
    update, key changed           the key, the rest None        the whole row
    delete                        the key, the rest None        the whole row

Under FULL an unchanged TOAST value is taken from the old row; otherwise it stands as UNCHANGED in
`after` and its column is named in `RowChange.holes`.

Pure.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ops.backfill.cdc.pg_tuple import UNCHANGED, ReadTuple, SourceColumn, fast_reader, slow_reader
from ops.backfill.cdc.pg_values import EPOCH_MICROS, SourceType, ValueRefused, keeps_values, type_of
from ops.common.change import Change, Delete, Insert, Update
from ops.common.errors import ConsistencyError
from ops.common.schema import Schema

__all__ = ["UNCHANGED", "Decoder", "Event"]

TableName = tuple[str, str]
"""(schema, table)"""


@dataclass(frozen=True, slots=True)
class Begin:
    """`final_lsn` is where the commit record starts, the `lsn` of this transaction's offsets."""

    final_lsn: int
    commit_ts_micros: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """`end_lsn` is where the commit record ends: what may be confirmed once this is stored."""

    commit_lsn: int
    end_lsn: int
    commit_ts_micros: int


class RowChange(NamedTuple):
    """`holes` names the columns whose large values were not sent (UNCHANGED in the row)."""

    table: TableName
    change: Change
    holes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Truncated:
    """Only bound tables are named."""

    tables: tuple[TableName, ...]


@dataclass(frozen=True, slots=True)
class RelationChanged:
    """The source's table is no longer the one that was bound."""

    table: TableName
    why: str


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A row of this table cannot be decoded; `why` names the column."""

    table: TableName
    why: str


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Event = Begin | Commit | RowChange | Truncated | RelationChanged | Poisoned | LogicalMessage


class MalformedMessage(ConsistencyError):
    """Bytes that are no message of this protocol; nothing after them can be trusted."""


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


@dataclass(frozen=True, slots=True)
class _Relation:
    """A Relation message as sent: columns are (is in the identity, name, type, modifier)."""

    oid: int
    table: TableName
    identity: str
    columns: tuple[tuple[bool, str, int, int], ...]


class _Reader(NamedTuple):
    table: TableName
    read: ReadTuple
    read_any: ReadTuple
    names: tuple[str, ...]


_OID = Struct(">I").unpack_from
_BEGIN = Struct(">QqI").unpack_from
_COMMIT = Struct(">BQQq").unpack_from
_RELATION_TAIL = Struct(">BH").unpack_from
_COLUMN_TAIL = Struct(">Ii").unpack_from
_TRUNCATE = Struct(">IB").unpack_from
_MESSAGE = Struct(">BQ").unpack_from
_INSERT, _UPDATE, _DELETE, _BEGINS, _COMMITS, _RELATES, _TRUNCATES, _SAYS = b"IUDBCRTM"
_NEW, _OLD, _KEY = b"NOK"
_SKIPPED = frozenset(b"YO")
_ROWS = frozenset(b"IUD")


class Decoder:
    """Turns messages of one slot, in order, into events; remembers the relations it was told of."""

    def __init__(
        self, relations: Mapping[TableName, Schema | Binding], *, binary: bool = True
    ) -> None:
        """`binary` says how the slot is read; the other form is understood too, but slower."""
        self._binary = binary
        self._bindings: dict[TableName, Binding] = {}
        self._relations: dict[int, _Relation] = {}
        self._readers: dict[int, _Reader] = {}
        for table, bound in relations.items():
            self.bind(table, bound)

    def bind(self, table: TableName, bound: Schema | Binding) -> RelationChanged | None:
        """Decode this table's rows from now on, also if its Relation message is long past."""
        self.unbind(table)
        self._bindings[table] = Binding(bound) if isinstance(bound, Schema) else bound
        known = next((r for r in self._relations.values() if r.table == table), None)
        return None if known is None else self._fit(known)

    def unbind(self, table: TableName) -> None:
        """Skip this table's rows from now on."""
        self._bindings.pop(table, None)
        self._stop_reading(table)

    def decode(self, message: bytes) -> Event | None:
        """Return what the message says, None if it says nothing about a bound table."""
        kind = message[0]
        if kind in _ROWS:
            reader = self._readers.get(_OID(message, 1)[0])
            if reader is None:
                return None
            try:
                return _row_change(kind, message, reader.table, reader.read, reader.read_any)
            except (ValueError, struct.error, IndexError):
                return self._decode_with_care(kind, message, reader)
        try:
            return self._decode_other(kind, message)
        except (struct.error, IndexError, ValueError) as error:
            raise MalformedMessage(f"{error}: {message[:64]!r}") from error

    def _decode_with_care(self, kind: int, message: bytes, reader: _Reader) -> Event:
        """Read again a row the fast reader stumbled over: it may be unusual, poison, or damaged."""
        try:
            found = _row_change(kind, message, reader.table, reader.read_any, reader.read_any)
        except ValueRefused as error:
            self.unbind(reader.table)
            return Poisoned(reader.table, str(error))
        except (struct.error, IndexError) as error:
            raise MalformedMessage(f"{reader.table}: {error}: {message[:64]!r}") from error
        return _with_holes(found, reader.names)

    def _decode_other(self, kind: int, message: bytes) -> Event | None:
        if kind == _BEGINS:
            final_lsn, since_2000, xid = _BEGIN(message, 1)
            return Begin(final_lsn, since_2000 + EPOCH_MICROS, xid)
        if kind == _COMMITS:
            _, commit_lsn, end_lsn, since_2000 = _COMMIT(message, 1)
            return Commit(commit_lsn, end_lsn, since_2000 + EPOCH_MICROS)
        if kind == _RELATES:
            return self._relation(_parse_relation(message))
        if kind == _TRUNCATES:
            count, _ = _TRUNCATE(message, 1)
            oids = struct.unpack_from(f">{count}I", message, 6)
            tables = tuple(self._readers[oid].table for oid in oids if oid in self._readers)
            return Truncated(tables) if tables else None
        if kind == _SAYS:
            transactional, lsn = _MESSAGE(message, 1)
            prefix, position = _string(message, 10)
            content = message[position + 4 : position + 4 + _OID(message, position)[0]]
            return LogicalMessage(bool(transactional), lsn, prefix, content)
        if kind in _SKIPPED:
            return None
        raise MalformedMessage(f"no message of protocol version 1 starts with {message[:1]!r}")

    def _relation(self, relation: _Relation) -> RelationChanged | None:
        # A name belongs to the table that had it last.
        for oid in [o for o, known in self._relations.items() if known.table == relation.table]:
            del self._relations[oid]
        self._relations[relation.oid] = relation
        return self._fit(relation)

    def _fit(self, relation: _Relation) -> RelationChanged | None:
        """Make the reader of a bound table, or say why it can no longer be read."""
        for table, binding in self._bindings.items():
            if binding.oid == relation.oid and table != relation.table:
                return self._changed(table, f"it was renamed to {'.'.join(relation.table)}")
        bound = self._bindings.get(relation.table)
        if bound is None:
            return None
        why = _misfit(relation, bound)
        if why is not None:
            return self._changed(relation.table, why)
        if bound.oid is None or bound.identity is None or bound.types is None:
            # From here on this is the table that was bound; anything else is a change.
            self._bindings[relation.table] = Binding(
                bound.schema,
                relation.oid,
                relation.identity,
                bound.unselected,
                {name: (oid, modifier) for _, name, oid, modifier in relation.columns},
            )
        by_name = {column.name: column for column in bound.schema.columns}
        columns = [SourceColumn(name, by_name.get(name)) for _, name, _, _ in relation.columns]
        sent = [column.name for column in columns]
        order = [sent.index(name) for name in bound.schema.names]
        self._readers[relation.oid] = _Reader(
            relation.table,
            fast_reader(columns, order, binary=self._binary),
            slow_reader(columns, order),
            bound.schema.names,
        )
        return None

    def _changed(self, table: TableName, why: str) -> RelationChanged:
        self.unbind(table)
        return RelationChanged(table, why)

    def _stop_reading(self, table: TableName) -> None:
        for oid in [oid for oid, reader in self._readers.items() if reader.table == table]:
            del self._readers[oid]


def _row_change(
    kind: int, message: bytes, table: TableName, read: ReadTuple, read_any: ReadTuple
) -> RowChange:
    """`read` takes whole rows, `read_any` also keys, whose other columns are NULL."""
    if kind == _INSERT:
        return RowChange(table, Insert(read(message, 6)[0]))
    image = message[5]
    if kind == _DELETE:
        if image == _OLD:
            return RowChange(table, Delete(read(message, 6)[0]))
        return RowChange(table, Delete(read_any(message, 6)[0], False))
    if image == _NEW:
        return RowChange(table, Update(None, read(message, 6)[0], False))
    if image == _KEY:
        before, position = read_any(message, 6)
        return RowChange(table, Update(before, read(message, position + 1)[0], False))
    before, position = read(message, 6)
    return RowChange(table, Update(before, read(message, position + 1)[0]))


def _with_holes(found: RowChange, names: tuple[str, ...]) -> RowChange:
    """Name the values that were not sent; where the old row is whole, take them from it."""
    change = found.change
    if not isinstance(change, Update):
        return found
    holes = tuple(
        name for name, value in zip(names, change.after, strict=True) if value is UNCHANGED
    )
    if not holes or not change.full or change.before is None:
        return found._replace(holes=holes)
    pairs = zip(change.before, change.after, strict=True)
    after = tuple(old if new is UNCHANGED else new for old, new in pairs)
    return found._replace(change=Update(change.before, after))


def _misfit(relation: _Relation, bound: Binding) -> str | None:
    """Return why rows of this relation are not rows of the bound table, None if they are."""
    if bound.oid is not None and bound.oid != relation.oid:
        return f"it was dropped and made again (oid {bound.oid}, now {relation.oid})"
    if bound.identity is not None and bound.identity != relation.identity:
        return f"its replica identity changed from {bound.identity!r} to {relation.identity!r}"
    sent = {name: (oid, modifier) for _, name, oid, modifier in relation.columns}
    for column in bound.schema.columns:
        if column.name not in sent:
            return f"column {column.name} is gone or renamed"
        found = sent[column.name]
        is_now = type_of(*found)
        bound_to = None if bound.types is None else bound.types[column.name]
        if is_now == column.type if bound_to is None else keeps_values(bound_to, found):
            continue
        if is_now is None or is_now == column.type:
            return f"column {column.name} has another type now"
        return f"column {column.name} was {column.type.shown} and is now {is_now}"
    added = [n for n in sent if n not in bound.schema.names and n not in bound.unselected]
    if added:
        return f"column {', '.join(added)} was added"
    if relation.identity == "n":
        return "its replica identity is NOTHING: updates and deletes are not published"
    identifying = {name for is_key, name, _, _ in relation.columns if is_key}
    # Under FULL every column is marked; the key is then whatever was bound.
    if relation.identity != "f" and identifying != set(bound.schema.key):
        now = ", ".join(sorted(identifying)) or "nothing"
        return f"its key was ({', '.join(bound.schema.key)}) and is now ({now})"
    return None


def _parse_relation(message: bytes) -> _Relation:
    (oid,) = _OID(message, 1)
    namespace, position = _string(message, 5)
    name, position = _string(message, position)
    identity, count = _RELATION_TAIL(message, position)
    position += 3
    columns = []
    for _ in range(count):
        is_key = bool(message[position] & 1)
        column, position = _string(message, position + 1)
        type_oid, modifier = _COLUMN_TAIL(message, position)
        position += 8
        columns.append((is_key, column, type_oid, modifier))
    return _Relation(oid, (namespace or "pg_catalog", name), chr(identity), tuple(columns))


def _string(message: bytes, position: int) -> tuple[str, int]:
    end = message.index(b"\0", position)
    return message[position:end].decode(), end + 1
