"""Tables, views and states as the control store lists them, and which files make one at an epoch.

    read(E) = newest base <= E  ⊕  log in (base, E]         once folded
    read(E) = snapshot files    ⊕  log in (0, E]            before

A log file covers (after, epoch]. One that lies across the base or across E makes E unreadable:
it was merged away. What was folded away is gone too: before `log_start`, a base is readable at its
own epoch and nothing is between two bases.

A name may have two versions that live:

    current   what the name means: what is read, what a new view reads
    next      being built beside it; only its backfill and the stream run see it
    old       dropped or replaced; nobody sees it but who takes it down

Each version is a relation of its own: id, splits, files, path, graph. Numbers are never used again.

Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ops.common.epoch import ZERO, Epoch
from ops.common.errors import EpochGone, UnknownRelation
from ops.common.ports import Statements
from ops.common.schema import Schema
from ops.common.table.key_range import KeyRanges, ranges_from_json


class Role(StrEnum):
    CURRENT = "current"
    NEXT = "next"
    OLD = "old"


@dataclass(frozen=True, slots=True)
class Relation:
    id: int
    pipeline: str
    name: str
    version: int
    role: str
    build: int | None
    """Of a next version: all of one build are swapped in one commit."""
    kind: str
    definition: str
    schema: Schema
    origin: dict[str, Any] | None
    """For a table, what its source's table was when it was bound: oid, identity, unselected; and
    whether rows were left out of its snapshot (partial)."""
    vnode_count: int
    path: str
    graph: str
    upstream: int | None
    state: str
    why: str | None
    live_since: Epoch | None
    snapshot_epoch: Epoch | None
    in_step: bool

    @property
    def is_whole(self) -> bool:
        """Say whether its graph's epoch is one at which others may begin to read it."""
        return self.in_step if self.kind == "view" else self.state == "Live"

    @property
    def is_partial(self) -> bool:
        """Whether the source may send before images of rows that were never here."""
        return bool(self.origin and self.origin.get("partial"))

    @property
    def label(self) -> str:
        """Return what tells this version from the others of its name."""
        return label(self.name, self.version)

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
    key_ranges: KeyRanges | None = None
    """Where the first key column of all its rows lies; None where nobody has looked."""


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
    key_ranges: KeyRanges | None = None
    after: Epoch | None = None
    """Set where the file covers more than the epoch that commits it: a view that rejoins."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What the store lists of a relation at one instant; the log is whole after `log_start`."""

    files: tuple[DataFile, ...]
    bases: tuple[Base, ...]
    log_start: Epoch = ZERO


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


def label(name: str, version: int) -> str:
    return name if version == 1 else f"{name}/v{version}"


def versions_of(store: Statements, pipeline: str) -> list[Relation]:
    """Return the current versions and those being built; what is read comes before its readers."""
    return [Relation.from_row(r) for r in store.query("select_relations", pipeline=pipeline)]


def relations_of(store: Statements, pipeline: str) -> list[Relation]:
    """Return the relation that each name means now."""
    return [r for r in versions_of(store, pipeline) if r.role == Role.CURRENT]


def to_fill(versions: Iterable[Relation], name: str) -> Relation:
    """Return the version of `name` that a backfill works on: the next one, if there is one."""
    known = list(versions)
    building = [r for r in known if r.name == name and r.role == Role.NEXT]
    return building[0] if building else find_relation(known, name)


def upstream_of(versions: Iterable[Relation], relation: Relation) -> Relation:
    """Return the very version that a view reads."""
    return next(r for r in versions if r.id == relation.upstream)


def states_of(versions: Iterable[Relation], view: Relation) -> tuple[Relation, ...]:
    """Return the states of a view as they were made, the intermediate one first."""
    found = [r for r in versions if r.graph == view.graph and r.kind == "state"]
    return tuple(sorted(found, key=lambda state: state.id))


def find_relation(relations: Iterable[Relation], name: str) -> Relation:
    known = list(relations)
    for relation in known:
        if relation.name == name:
            return relation
    raise UnknownRelation(name, [r.name for r in known if r.kind != "state"])


def listing(store: Statements, relation: Relation) -> Listing:
    row = store.query("select_listing", relation=relation.id)[0]
    files = tuple(DataFile(**{**f, "key_ranges": ranges_from_json(f)}) for f in row["files"])
    return Listing(files, tuple(Base(**b) for b in row["bases"]), Epoch(row["log_start"]))


def contents(store: Statements, relation: Relation, as_of: Epoch) -> Contents:
    """Return the files of `relation` as of an epoch, as the store lists them now."""
    return contents_as_of(relation, listing(store, relation), as_of)


def contents_as_of(relation: Relation, listed: Listing, as_of: Epoch) -> Contents:
    found = _find(relation, listed, as_of)
    if found is None:
        raise EpochGone(relation.name, as_of, nearest=_nearest(relation, listed, as_of))
    return found


def changed_files(
    relation: Relation, listed: Listing, after: Epoch, upto: Epoch
) -> tuple[DataFile, ...]:
    """Return the log files of exactly (after, upto]."""
    logs = [f for f in listed.files if f.kind == "log" and f.epoch > after and f.after < upto]
    if after < listed.log_start or any(f.after < after or f.epoch > upto for f in logs):
        raise EpochGone(relation.name, after, nearest=_nearest(relation, listed, after))
    return tuple(logs)


def _find(relation: Relation, listed: Listing, as_of: Epoch) -> Contents | None:
    base = max((b for b in listed.bases if b.epoch <= as_of), key=lambda b: b.epoch, default=None)
    start = base.epoch if base else ZERO
    if start < listed.log_start:
        # The log after this base is gone, and before the first base the snapshot files are.
        alone = base is not None and base.epoch == as_of
        return Contents(relation, as_of, base, (), ()) if alone else None
    logs = [f for f in listed.files if f.kind == "log" and f.epoch > start and f.after < as_of]
    if any(f.after < start or f.epoch > as_of for f in logs):
        return None
    # A base was made from all the snapshot files; before it, they are the base.
    snapshots = [f for f in listed.files if f.kind == "snapshot"] if base is None else []
    return Contents(relation, as_of, base, tuple(snapshots), tuple(logs))


def _nearest(relation: Relation, listed: Listing, as_of: Epoch) -> Epoch | None:
    ends = {f.epoch for f in listed.files if f.kind == "log"} | {b.epoch for b in listed.bases}
    readable = [e for e in ends if _find(relation, listed, e) is not None]
    return min(readable, key=lambda e: abs(e - as_of), default=None)
