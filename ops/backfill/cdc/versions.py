"""One table of a source, decoded for each of its versions that live.

The version that people read and the one being built beside it may have different columns. Each is
bound under a name of its own: the first as the table is called, the others with their label after
it. What they say of the table is the same event under each of these names; what a message says
beyond tables is said once, by the first.

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ops.backfill.cdc.pgoutput import (
    Binding,
    Decoder,
    Event,
    Poisoned,
    RelationChanged,
    RowChange,
    TableName,
    Truncated,
)
from ops.common.table.relation import Relation

_MARK = "\0"
"""No name in Postgres holds it."""

Bound = Mapping[TableName, tuple[Relation, Binding]]


def bound_names(found: Sequence[tuple[TableName, Relation, Binding]]) -> Bound:
    """Return each version under a name of its own, given the table it is read from."""
    names: dict[TableName, tuple[Relation, Binding]] = {}
    for (schema, table), relation, binding in found:
        name = (schema, table)
        if name in names:
            name = (schema, f"{table}{_MARK}{relation.label}")
        names[name] = (relation, binding)
    return names


class VersionDecoder:
    """Decodes each message for every version; the events of the first come first."""

    def __init__(self, bindings: Mapping[TableName, Binding], *, binary: bool) -> None:
        layers: list[dict[TableName, Binding]] = [{}]
        self._names: list[dict[TableName, TableName]] = [{}]
        for name, binding in bindings.items():
            table = _table_of(name)
            number = next((i for i, layer in enumerate(layers) if table not in layer), len(layers))
            if number == len(layers):
                layers.append({})
                self._names.append({})
            layers[number][table] = binding
            self._names[number][table] = name
        self._decoders = [Decoder(layer, binary=binary) for layer in layers]

    def decode(self, message: bytes) -> Iterator[Event]:
        for number, decoder in enumerate(self._decoders):
            event = decoder.decode(message)
            if event is not None:
                named = event if number == 0 else _renamed(event, self._names[number])
                if named is not None:
                    yield named

    def unbind(self, name: TableName) -> None:
        for decoder, names in zip(self._decoders, self._names, strict=True):
            if names.get(_table_of(name)) == name:
                decoder.unbind(_table_of(name))


def _table_of(name: TableName) -> TableName:
    return name[0], name[1].partition(_MARK)[0]


def _renamed(event: Event, names: Mapping[TableName, TableName]) -> Event | None:
    """Return what is said of a table under another version's name; None for all else."""
    match event:
        case RowChange():
            return event._replace(table=names[event.table])
        case Truncated(tables):
            return Truncated(tuple(names[table] for table in tables))
        case RelationChanged() | Poisoned():
            return replace(event, table=names[event.table])
        case _:
            return None
