"""Tables, views and states as the control store lists them, and which files make one at an epoch.

    read(E) = newest base <= E  ⊕  log in (base, E]         once folded
    read(E) = snapshot files    ⊕  log in (0, E]            before

A log file covers (after, epoch]. One that lies across the base or across E makes E unreadable:
it was merged away. So is an epoch before the oldest base, once the files that base was made from
are no longer listed.

Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ops.common.epoch import ZERO, Epoch
from ops.common.errors import EpochGone, UnknownRelation
from ops.common.ports import Statements
from ops.common.schema import Schema


@dataclass(frozen=True, slots=True)
class Relation:
    id: int
    pipeline: str
    name: str
    kind: str
    definition: str
    schema: Schema
    origin: dict[str, Any] | None
    """For a table, what its source's table was when it was bound: oid, identity, unselected."""
    vnode_count: int
    path: str
    graph: str
    upstream: int | None
    state: str
    why: str | None
    live_since: Epoch | None
    snapshot_epoch: Epoch | None
    in_step: bool

    @staticmethod
    def from_row(row: dict[str, Any]) -> "Relation":
        return Relation(**{**row, "schema": Schema.from_json(row["schema"])})


@dataclass(frozen=True, slots=True)
class DataFile:
    id: int
    kind: str
    after: Epoch
    epoch: Epoch
    path: str
    rows: int
    bytes: int
    unknown_rows: int

    @staticmethod
    def from_row(row: dict[str, Any]) -> "DataFile":
        return DataFile(
            row["id"],
            row["kind"],
            row["after_epoch"],
            row["epoch"],
            row["path"],
            row["rows"],
            row["bytes"],
            row["unknown_rows"],
        )


@dataclass(frozen=True, slots=True)
class Base:
    """A version of a Delta table that holds the relation as of `epoch`."""

    epoch: Epoch
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that was written and that no epoch names yet."""

    relation: int
    attempt: int
    kind: str
    path: str
    rows: int
    bytes: int
    unknown_rows: int = 0
    after: Epoch | None = None
    """Set where the file covers more than the epoch that commits it: a view that rejoins."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a relation is made of as of an epoch."""

    relation: Relation
    as_of: Epoch
    base: Base | None
    snapshots: tuple[DataFile, ...]
    logs: tuple[DataFile, ...]


def target_pin(graph: str) -> str:
    """Return the owner of the pin on the epoch that a follower is about to reach."""
    return f"{graph}/target"


def relations_of(store: Statements, pipeline: str) -> list[Relation]:
    return [Relation.from_row(r) for r in store.query("select_relations", pipeline=pipeline)]


def find_relation(relations: Iterable[Relation], name: str) -> Relation:
    known = list(relations)
    for relation in known:
        if relation.name == name:
            return relation
    raise UnknownRelation(name, [r.name for r in known if r.kind != "state"])


def contents(store: Statements, relation: Relation, as_of: Epoch) -> Contents:
    """Return the files of `relation` as of an epoch, as the store lists them now."""
    files = [DataFile.from_row(r) for r in store.query("select_files", relation=relation.id)]
    bases = [Base(**r) for r in store.query("select_bases", relation=relation.id)]
    return contents_as_of(relation, files, bases, as_of)


def contents_as_of(
    relation: Relation, files: Sequence[DataFile], bases: Sequence[Base], as_of: Epoch
) -> Contents:
    base = max((b for b in bases if b.epoch <= as_of), key=lambda b: b.epoch, default=None)
    start = base.epoch if base else ZERO
    logs = [f for f in files if f.kind == "log" and f.epoch > start and f.after < as_of]
    straddled = any(f.after < start or f.epoch > as_of for f in logs)
    if straddled or (base is None and _folded_away(files, bases)):
        ends = [f.epoch for f in files if f.kind == "log"] + [b.epoch for b in bases]
        raise EpochGone(relation.name, as_of, nearest=min(ends, key=lambda e: abs(e - as_of)))
    # A base was made from all the snapshot files; before it, they are the base.
    snapshots = tuple(f for f in files if f.kind == "snapshot") if base is None else ()
    return Contents(relation, as_of, base, snapshots, tuple(logs))


def _folded_away(files: Sequence[DataFile], bases: Sequence[Base]) -> bool:
    """Say whether what the oldest base was made from (it is never nothing) is unlisted."""
    oldest = min((b.epoch for b in bases), default=None)
    if oldest is None:
        return False
    return not any(f.kind == "snapshot" or f.epoch <= oldest for f in files)


def changed_files(
    files: Sequence[DataFile], relation: Relation, after: Epoch, upto: Epoch
) -> tuple[DataFile, ...]:
    """Return the log files of exactly (after, upto]."""
    logs = [f for f in files if f.kind == "log" and f.epoch > after and f.after < upto]
    if any(f.after < after or f.epoch > upto for f in logs):
        raise EpochGone(relation.name, after, nearest=min(f.after for f in logs))
    return tuple(logs)
