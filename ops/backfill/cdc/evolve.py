"""What a changed table of the source makes of ours: its next schema, or why it has to stop.

    at the source                  here
    ADD COLUMN                     a new column at the end; in rows of before it is NULL, or the
                                   DEFAULT it was added with, which changed them with no event
    … with a default per row       stops: rows of before have values that are in no event
    RENAME COLUMN                  the same column; its name in files stays what it was
    DROP COLUMN                    gone from here on; earlier epochs keep it
    dropped, then added again      a new column, with a name of its own in files

Columns are known again by attnum. The catalog is asked later than the stream says it and may know
more: what the stream has not sent yet is left for its next message.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ops.backfill.cdc.pg_values import SourceType
from ops.common.schema import Column, DataType, Schema


class Attribute(Protocol):
    """A column as the catalog has it now; `type` is in our words, None where there is none."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str | None: ...
    @property
    def nullable(self) -> bool: ...
    @property
    def attnum(self) -> int: ...
    @property
    def type_oid(self) -> int: ...
    @property
    def modifier(self) -> int: ...
    @property
    def missing(self) -> str | None: ...
    @property
    def computed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """By what a source's table and its columns are known again.

    `attnums` and `names` are by the columns' names here; `names` has only those that are called
    something else at the source, `former` what they were called there before. `retired` are names
    here that dropped columns had.
    """

    oid: int
    identity: str
    unselected: tuple[str, ...]
    attnums: Mapping[str, int]
    names: Mapping[str, str]
    types: Mapping[str, SourceType] | None = None
    """What the columns' types are at the source, by their names here."""
    former: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retired: tuple[str, ...] = ()
    follows_all: bool = False
    """The definition says (*): what is added belongs to the table."""
    text_numerics: bool = False
    partial: bool = False
    """The source may send before images of rows that were never here."""

    def shown(self, name: str) -> str:
        return self.names.get(name, name)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Origin":
        """Read what is stored; before columns could change, only the first three were."""
        types = data.get("types")
        return Origin(
            data["oid"],
            data["identity"],
            tuple(data["unselected"]),
            data.get("attnums", {}),
            data.get("names", {}),
            None if types is None else {name: (oid, mod) for name, (oid, mod) in types.items()},
            {name: tuple(many) for name, many in data.get("former", {}).items()},
            tuple(data.get("retired", ())),
            data.get("follows_all", False),
            data.get("text_numerics", False),
            data.get("partial", False),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "oid": self.oid,
            "identity": self.identity,
            "unselected": list(self.unselected),
            "attnums": dict(self.attnums),
            "names": dict(self.names),
            "types": None if self.types is None else {n: [*t] for n, t in self.types.items()},
            "former": {name: list(many) for name, many in self.former.items()},
            "retired": list(self.retired),
            "follows_all": self.follows_all,
            "text_numerics": self.text_numerics,
            "partial": self.partial,
        }


@dataclass(frozen=True, slots=True)
class Evolved:
    """`absent` are columns that the message does not have yet, `sent` what it still calls others:
    it is of the same transaction as the change, and older."""

    schema: Schema
    origin: Origin
    absent: tuple[str, ...] = ()
    sent: Mapping[str, str] = field(default_factory=dict)


def evolve(
    schema: Schema,
    origin: Origin,
    sent: Sequence[str],
    found: Sequence[Attribute],
    *,
    version: int,
) -> Evolved | str:
    """Return the schema that fits a Relation message naming `sent`; `version` is its number."""
    by_attnum = {a.attnum: a for a in found}
    columns: list[Column] = []
    names: dict[str, str] = {}
    attnums: dict[str, int] = {}
    types = dict(origin.types or {})
    retired = list(origin.retired)
    absent: list[str] = []
    former, still = dict(origin.former), dict[str, str]()
    for column in schema.columns:
        attnum = origin.attnums.get(column.name)
        if attnum is None:
            return f"column {column.name} is gone or renamed"
        shown, now = origin.shown(column.name), by_attnum.get(attnum)
        before = [name for name in origin.former.get(column.name, ()) if name in sent]
        if now is not None and now.name in sent:
            if shown != now.name:
                former[column.name] = (*former.get(column.name, ()), shown)
            shown = now.name
        elif shown not in sent:
            if now is not None and now.name == shown and before:
                still[column.name] = before[-1]
            elif now is not None and now.name == shown and column.added > 1:
                absent.append(column.name)
            elif now is not None:
                return f"column {shown} was renamed to {now.name} amid other changes"
            elif column.name in schema.key:
                return f"column {shown} of its key was dropped"
            else:
                retired.append(column.name)
                types.pop(column.name, None)
                continue
        columns.append(column)
        attnums[column.name] = attnum
        if shown != column.name:
            names[column.name] = shown
    unselected = [n for n in origin.unselected if n in sent]
    for attribute in sorted(found, key=lambda a: a.attnum):
        if attribute.attnum in attnums.values() or attribute.name not in sent:
            continue
        if not origin.follows_all:
            unselected.append(attribute.name)
            continue
        if attribute.type is None:
            return f"column {attribute.name} was added, and its type is not supported"
        if attribute.computed:
            return f"column {attribute.name} was added with a default that differs from row to row"
        name = attribute.name
        if name in attnums or name in retired:
            name = f"{attribute.name}_{attribute.attnum}"
        columns.append(
            Column(
                name,
                DataType.parse(attribute.type),
                attribute.nullable,
                added=version,
                default=attribute.missing,
            )
        )
        attnums[name] = attribute.attnum
        types[name] = (attribute.type_oid, attribute.modifier)
        if name != attribute.name:
            names[name] = attribute.name
    known = {still.get(n, names.get(n, n)) for n in attnums}
    # Dropped since: the stream still sends it, and nobody can say what it was.
    unselected += [n for n in sent if n not in known and n not in unselected]
    return Evolved(
        Schema(tuple(columns), schema.key),
        replace(
            origin,
            unselected=tuple(dict.fromkeys(unselected)),
            attnums=attnums,
            names=names,
            types=types,
            former=former,
            retired=tuple(retired),
        ),
        tuple(absent),
        still,
    )
