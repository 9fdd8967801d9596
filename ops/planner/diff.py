"""What has to happen so that what is stored becomes what is wanted.

    stored   wanted                                   step
    no       yes                                      Create
    yes      the same, and what it reads is kept      Keep
    yes      another text, or what it reads changes   Change: built beside the old one, then swapped
    yes      no                                       Drop
    (a new version is being built)
             just that                                Underway
             anything else                            Cancel, and one of the above

Steps come in dependency order: sources, tables, views. Drops come last and the other way round,
so that nothing is taken from under a relation still being replaced; only a relation that makes room
for another kind of the same name is dropped first. Comments, spaces, the case of unquoted words and
IF NOT EXISTS make no difference between two texts; neither does the value of a masked password.

A changed source keeps its tables: how it is connected to may change, what it is may not.

Pure.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from sqlglot.tokenizer_core import TokenType

from ops.common.errors import ConfigError, Unsupported
from ops.planner.dialect import QUOTED, statements
from ops.planner.plan import PipelinePlan

_AS_WRITTEN = QUOTED | {TokenType.IDENTIFIER}
_KIND = re.compile(r"\s*create\s+(source|table|materialized)\b", re.IGNORECASE)
_IF_NOT_EXISTS = [(False, "if"), (False, "not"), (False, "exists")]


class RelationKind(StrEnum):
    """In dependency order."""

    SOURCE = "source"
    TABLE = "table"
    VIEW = "view"


@dataclass(frozen=True, slots=True)
class Create:
    """`build` is the one under way that it joins, since it reads a new version of that."""

    kind: RelationKind
    name: str
    build: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """`because` says what changed: its own definition, or what it reads."""

    kind: RelationKind
    name: str
    because: str


@dataclass(frozen=True, slots=True)
class Drop:
    kind: RelationKind
    name: str


@dataclass(frozen=True, slots=True)
class Keep:
    kind: RelationKind
    name: str


@dataclass(frozen=True, slots=True)
class Underway:
    """The version that is wanted is being built; `why` says what has ended that."""

    kind: RelationKind
    name: str
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """The version being built is wanted no more; the current one has never gone."""

    kind: RelationKind
    name: str


PlanStep = Create | Change | Drop | Keep | Underway | Cancel


@dataclass(frozen=True, slots=True)
class Next:
    """A version that is being built."""

    definition: str
    build: int
    why: str | None = None


def diff_pipeline(
    wanted: PipelinePlan,
    stored: Mapping[str, str],
    building: Mapping[str, Next] | None = None,
    *,
    anew: Collection[str] = (),
) -> list[PlanStep]:
    """Return the steps; `stored` maps each current relation's name to its definition as stored.

    `building` has the versions beside them; `anew` names what is built again as it is.
    """
    relations = _relations(wanted)
    found = building or {}
    reads = {name: what for _, name, what, _ in relations}
    still = {
        name: name in found and same_definition(definition, found[name].definition)
        for _, name, _, definition in relations
    }
    kept = {b.build for b in found.values()} - {
        b.build for name, b in found.items() if name in anew or not still.get(name)
    }
    # What a build began with is begun again if the build is given up and that is still wanted.
    roots = {n for n, b in found.items() if still.get(n) and not _is_in(found, reads[n], b.build)}
    while True:
        underway = {name: b for name, b in found.items() if b.build in kept}
        again = {*anew, *(name for name in roots if found[name].build not in kept)}
        steps, moving = _diff(relations, stored, underway, again)
        # What a kept build reads changes as well: it must begin again from that.
        upset = {b.build for name, b in underway.items() if reads[name] in moving}
        if not upset:
            break
        kept -= upset
    cancelled: list[PlanStep] = [
        Cancel(_kind_of(name, b.definition), name)
        for name, b in sorted(found.items())
        if b.build not in kept
    ]
    return [*cancelled, *steps]


def _is_in(found: Mapping[str, Next], name: str, build: int) -> bool:
    return name in found and found[name].build == build


_Wanted = tuple[RelationKind, str, str, str]


def _relations(wanted: PipelinePlan) -> list[_Wanted]:
    """Return (kind, name, what it reads, definition) of each, in dependency order."""
    return [
        *((RelationKind.SOURCE, s.name, "", s.definition) for s in wanted.sources),
        *((RelationKind.TABLE, t.name, "", t.definition) for t in wanted.tables),
        *((RelationKind.VIEW, v.name, v.upstream, v.definition) for v in wanted.views),
    ]


def _diff(
    relations: Sequence[_Wanted],
    stored: Mapping[str, str],
    underway: Mapping[str, Next],
    anew: Collection[str],
) -> tuple[list[PlanStep], set[str]]:
    """Return the steps, and the names whose contents will be others."""
    kinds = {name: _kind_of(name, text) for name, text in stored.items()}
    steps: list[PlanStep] = []
    gone: list[Drop] = []
    moving: set[str] = set()
    for kind, name, reads, definition in relations:
        if name in underway:
            steps.append(Underway(kind, name, underway[name].why))
            continue
        if name not in stored:
            joined = underway.get(reads)
            steps.append(Create(kind, name, joined.build if joined else None))
        elif kinds[name] is not kind:
            gone.append(Drop(kinds[name], name))
            steps.append(Create(kind, name))
        elif not same_definition(definition, stored[name]):
            steps.append(Change(kind, name, "its definition changed"))
        elif name in anew:
            steps.append(Change(kind, name, "it is built anew"))
        elif reads in moving:
            steps.append(Change(kind, name, f"{reads} is rebuilt"))
        else:
            steps.append(Keep(kind, name))
            continue
        moving.add(name)
    names = {name for _, name, _, _ in relations}
    order = list(RelationKind)
    left = [Drop(kinds[name], name) for name in sorted(stored) if name not in names]
    left.sort(key=lambda drop: order.index(drop.kind), reverse=True)
    gone.sort(key=lambda drop: order.index(drop.kind), reverse=True)
    return [*gone, *steps, *left], moving


def builds(steps: Sequence[PlanStep], wanted: PipelinePlan) -> list[list[Change | Create]]:
    """Return what is to be built beside and swapped together: changes, and all that reads them."""
    reads = {view.name: view.upstream for view in wanted.views}
    moving = [
        s
        for s in steps
        if isinstance(s, Change | Create) and s.kind is not RelationKind.SOURCE and not _joins(s)
    ]
    groups: list[list[Change | Create]] = []
    for step in moving:
        # Dependency order: what it reads has its group already.
        home = next((g for g in groups if any(m.name == reads.get(step.name) for m in g)), None)
        if home is None:
            groups.append([step])
        else:
            home.append(step)
    return [group for group in groups if any(isinstance(step, Change) for step in group)]


def _joins(step: Change | Create) -> bool:
    return isinstance(step, Create) and step.build is not None


def render(steps: Sequence[PlanStep]) -> str:
    """Return the steps as a few lines for people, and a line that counts them."""
    lines = [_line(step) for step in steps]
    if not is_work(steps):
        return "\n".join([*lines, "nothing to do"])
    counts = [
        f"{sum(isinstance(step, kind) for step in steps)} {words}"
        for kind, words in ((Create, "to create"), (Change, "to change"), (Drop, "to drop"))
    ]
    return "\n".join([*lines, ", ".join(counts)])


def is_work(steps: Sequence[PlanStep]) -> bool:
    return not all(isinstance(step, Keep | Underway) for step in steps)


def same_definition(one: str, other: str) -> bool:
    return one == other or _words(one) == _words(other)


def _line(step: PlanStep) -> str:
    match step:
        case Create(kind, name):
            return f"+ create {kind} {name}"
        case Change(kind, name, because):
            return f"~ change {kind} {name}: {because}"
        case Drop(kind, name):
            return f"- drop {kind} {name}"
        case Keep(kind, name):
            return f"= keep {kind} {name}"
        case Underway(kind, name, None):
            return f"… {kind} {name}: its new version is being built"
        case Underway(kind, name, why):
            return f"! {kind} {name}: its new version cannot be built: {why}"
        case Cancel(kind, name):
            return f"x give up the new version of {kind} {name}"
        case _:
            assert_never(step)


def _words(definition: str) -> list[tuple[bool, str]]:
    """Return what counts in a text: its tokens, each with whether it is taken as written."""
    try:
        parts = statements(definition)
    except Unsupported:
        return [(True, definition)]
    words = [
        (True, part.text(token, token))
        if token.token_type in _AS_WRITTEN
        else (False, token.text.lower())
        for part in parts
        for token in part.tokens
    ]
    for index in range(min(5, len(words))):
        if words[index : index + 3] == _IF_NOT_EXISTS:
            return words[:index] + words[index + 3 :]
    return words


def _kind_of(name: str, definition: str) -> RelationKind:
    found = _KIND.match(definition)
    if found is None:
        raise ConfigError(f"the stored definition of {name} is none of a source, table or view")
    word = found.group(1).lower()
    return RelationKind.VIEW if word == "materialized" else RelationKind(word)
