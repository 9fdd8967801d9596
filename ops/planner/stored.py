"""A pipeline as it was applied: its relations with the plans their stored definitions ask for.

What runs goes by this and not by the files: a file may have been edited since, and two versions of
a relation are never in one file.

Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ops.common.errors import ConfigError, UnknownRelation
from ops.common.ports import Statements
from ops.common.table.relation import (
    Relation,
    Role,
    find_relation,
    states_of,
    to_fill,
    upstream_of,
    versions_of,
)
from ops.planner.bind_view import bind_view
from ops.planner.options import MASK
from ops.planner.parse import parse_pipeline
from ops.planner.plan import PipelinePlan, SourcePlan, TablePlan, ViewPlan
from ops.planner.plan_view import BoundView

MASKED = MASK.strip("'")


@dataclass(frozen=True)
class Applied:
    """`versions` are those that live, `plans` what each is defined as, by its id."""

    pipeline: str
    sources: Mapping[str, SourcePlan]
    versions: Sequence[Relation]
    plans: Mapping[int, TablePlan | ViewPlan]

    @property
    def tables(self) -> list[tuple[TablePlan, Relation]]:
        pairs = [(self.plans.get(r.id), r) for r in self.versions]
        return [(plan, r) for plan, r in pairs if isinstance(plan, TablePlan)]

    @property
    def views(self) -> list[tuple[ViewPlan, Relation]]:
        pairs = [(self.plans.get(r.id), r) for r in self.versions]
        return [(plan, r) for plan, r in pairs if isinstance(plan, ViewPlan)]

    def current(self, name: str) -> Relation:
        return find_relation((r for r in self.versions if r.role == Role.CURRENT), name)

    def to_fill(self, name: str) -> Relation:
        """Return the version a backfill works on."""
        return to_fill(self.versions, name)

    def table(self, name: str) -> tuple[TablePlan, Relation]:
        relation = self.to_fill(name)
        plan = self.plans[relation.id]
        if not isinstance(plan, TablePlan):
            raise UnknownRelation(name, [r.name for _, r in self.tables])
        return plan, relation

    def view(self, name: str) -> tuple[ViewPlan, Relation]:
        relation = self.to_fill(name)
        plan = self.plans[relation.id]
        if not isinstance(plan, ViewPlan):
            raise UnknownRelation(name, [r.name for _, r in self.views])
        return plan, relation

    def upstream(self, view: Relation) -> Relation:
        return upstream_of(self.versions, view)

    def states(self, view: Relation) -> tuple[Relation, ...]:
        return states_of(self.versions, view)

    def bound(self, view: Relation) -> BoundView:
        plan = self.plans[view.id]
        assert isinstance(plan, ViewPlan)
        return bind_view(plan, self.upstream(view).schema)


def applied_pipeline(store: Statements, pipeline: str) -> Applied:
    """Return what the store holds; passwords that were masked in it are not known here."""
    versions = versions_of(store, pipeline)
    texts = [row["definition"] for row in store.query("select_sources", pipeline=pipeline)]
    current = parse_stored(pipeline, [*texts, *_definitions(versions, Role.CURRENT)])
    plans: dict[int, TablePlan | ViewPlan] = {}
    for relation in versions:
        if relation.kind == "state":
            continue
        plan = current
        if relation.role != Role.CURRENT:
            plan = parse_stored(pipeline, [*texts, *_chain(versions, relation)])
        found = plan.table(relation.name) or plan.view(relation.name)
        if found is None:
            raise ConfigError(f"the stored definition of {relation.name} does not define it")
        plans[relation.id] = found
    return Applied(pipeline, {s.name: s for s in current.sources}, versions, plans)


def is_masked(source: SourcePlan) -> bool:
    return MASKED in source.options.values()


def with_secrets_of(source: SourcePlan, written: SourcePlan | None) -> SourcePlan:
    """Return the source with what was masked when it was stored, as its file has it now."""
    if not is_masked(source):
        return source
    if written is None:
        raise ConfigError(
            f"the password of source {source.name} stands in its definition only, which is gone "
            f"from the file of {source.pipeline}; put it back, or write a SECRET"
        )
    options = {
        option: written.options.get(option, value) if value == MASKED else value
        for option, value in source.options.items()
    }
    return replace(source, options=options)


def _definitions(versions: Sequence[Relation], role: Role) -> list[str]:
    return [r.definition for r in versions if r.role == role and r.kind != "state"]


def _chain(versions: Sequence[Relation], relation: Relation) -> list[str]:
    """Return the definitions of what a relation reads, and its own."""
    if relation.upstream is None:
        return [relation.definition]
    return [*_chain(versions, upstream_of(versions, relation)), relation.definition]


def parse_stored(pipeline: str, texts: Sequence[str]) -> PipelinePlan:
    """Return the plan of stored definitions; each is of something that was accepted once."""
    return parse_pipeline(pipeline, ";\n".join(texts))
