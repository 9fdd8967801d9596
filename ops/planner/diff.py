"""What has to happen so that what is stored becomes what is wanted.

    stored   wanted                                   step
    no       yes                                      Create
    yes      the same, and what it reads is kept      Keep
    yes      another text, or what it reads changes   Change: built beside the old one, then swapped
    yes      no                                       Drop

Steps come in dependency order: sources, tables, views. Drops come last and the other way round,
so that nothing is taken from under a relation still being replaced; only a relation that makes room
for another kind of the same name is dropped first. Comments, spaces, the case of unquoted words and
IF NOT EXISTS make no difference between two texts; neither does the value of a masked password.

Pure.
"""

import re
from collections.abc import Mapping, Sequence
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
    kind: RelationKind
    name: str


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


PlanStep = Create | Change | Drop | Keep


def diff_pipeline(wanted: PipelinePlan, stored: Mapping[str, str]) -> list[PlanStep]:
    """Return the steps; `stored` maps each relation's name to its definition as stored."""
    kinds = {name: _kind_of(name, text) for name, text in stored.items()}
    steps: list[PlanStep] = []
    gone: list[Drop] = []
    moving: set[str] = set()
    relations = [
        *((RelationKind.SOURCE, s.name, "", s.definition) for s in wanted.sources),
        *((RelationKind.TABLE, t.name, t.source, t.definition) for t in wanted.tables),
        *((RelationKind.VIEW, v.name, v.upstream, v.definition) for v in wanted.views),
    ]
    for kind, name, reads, definition in relations:
        if name not in stored:
            steps.append(Create(kind, name))
        elif kinds[name] is not kind:
            gone.append(Drop(kinds[name], name))
            steps.append(Create(kind, name))
        elif not same_definition(definition, stored[name]):
            steps.append(Change(kind, name, "its definition changed"))
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
    return [*gone, *steps, *left]


def render(steps: Sequence[PlanStep]) -> str:
    """Return the steps as a few lines for people, and a line that counts them."""
    lines = [_line(step) for step in steps]
    if all(isinstance(step, Keep) for step in steps):
        return "\n".join([*lines, "nothing to do"])
    counts = [
        f"{sum(isinstance(step, kind) for step in steps)} {words}"
        for kind, words in ((Create, "to create"), (Change, "to change"), (Drop, "to drop"))
    ]
    return "\n".join([*lines, ", ".join(counts)])


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
