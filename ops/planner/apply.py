"""Make the control store hold what a pipeline's definition asks for, in one transaction.

    new         a relation of its own, which the stream run takes in between two barriers
    changed     a version beside the current one, and of all that reads it: a build, which the main
                graph swaps in whole; where nobody could read the old one yet, it goes at once
    dropped     nobody's from here on; `drop` and `release` take down what it leaves

The source is asked before the transaction: none of ours may be open while one is prepared. What was
planned meanwhile by somebody else, or swapped in, is seen under the pipeline's lock and planned
again.

Pure.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ops.common.errors import ConfigError, TransientError, Unsupported
from ops.common.ports import Failpoint, Statements, Store, unarmed
from ops.common.schema import Schema
from ops.common.table.relation import Relation, Role, label, versions_of
from ops.planner.bind import bind_table
from ops.planner.bind_view import bind_view
from ops.planner.diff import (
    Cancel,
    Change,
    Create,
    Drop,
    Next,
    PlanStep,
    RelationKind,
    builds,
    diff_pipeline,
)
from ops.planner.parse import parse_pipeline
from ops.planner.plan import PipelinePlan, SourcePlan, TablePlan, ViewPlan
from ops.planner.plan_view import state_schemas
from ops.planner.stored import is_masked

FIXED = ("connector", "database.name", "slot.name", "publication.name")
"""Options that say what a source is; the others say how it is reached."""
TRIES = 10


@dataclass(frozen=True, slots=True)
class Described:
    """A source's table: its columns and key, and by what to know it again."""

    schema: Schema
    oid: int
    identity: str
    unselected: tuple[str, ...]
    types: Mapping[str, tuple[int, int]]
    """Each column's type at the source: its oid and modifier."""


Describe = Callable[[TablePlan], Described]


ALL = "*"
"""In place of a relation's name: the maintenance of the pipeline as a whole."""


def main_graph(pipeline: str) -> str:
    return pipeline


def relation_graph(pipeline: str, name: str, version: int = 1) -> str:
    return f"{pipeline}/{label(name, version)}"


def maintenance_graph(pipeline: str, relation: str) -> str:
    """Return the graph of a relation's folds; `relation` is its label."""
    return f"{pipeline}/{relation}/maintenance"


def verify_graph(pipeline: str, name: str) -> str:
    return f"{pipeline}/{name}/verify"


class StillRead(ConfigError):
    def __init__(self, name: str, readers: Sequence[str]) -> None:
        them = "it" if len(readers) == 1 else "them"
        super().__init__(
            f"{name} cannot be dropped: {', '.join(readers)} would read nothing; drop {them} in "
            "the same plan"
        )


class StillDropping(TransientError):
    def __init__(self, source: str) -> None:
        super().__init__(
            f"source {source} is still being dropped; its slot goes once the stream run has let go "
            "of it, try again in a moment"
        )


class AlwaysMoving(TransientError):
    def __init__(self, pipeline: str) -> None:
        super().__init__(
            f"the definitions of {pipeline} changed {TRIES} times meanwhile; try again"
        )


@dataclass(frozen=True)
class _Known:
    """What is stored of a pipeline, as the steps are made from it."""

    versions: Sequence[Relation]
    sources: Mapping[str, str]

    @property
    def current(self) -> list[Relation]:
        return [r for r in self.versions if r.role == Role.CURRENT]

    def steps(self, plan: PipelinePlan, anew: Collection[str]) -> list[PlanStep]:
        shown = [r for r in self.versions if r.kind != "state"]
        stored = {r.name: r.definition for r in shown if r.role == Role.CURRENT}
        building = {
            r.name: Next(r.definition, r.build, r.why)
            for r in shown
            if r.role == Role.NEXT and r.build is not None
        }
        return diff_pipeline(plan, {**self.sources, **stored}, building, anew=anew)

    def is_same(self, other: "_Known") -> bool:
        mine, theirs = ([(r.id, r.role) for r in k.versions] for k in (self, other))
        return mine == theirs and self.sources == other.sources


def _known(store: Statements, pipeline: str) -> _Known:
    sources = store.query("select_sources", pipeline=pipeline)
    return _Known(versions_of(store, pipeline), {s["name"]: s["definition"] for s in sources})


def plan_steps(
    store: Statements, plan: PipelinePlan, *, anew: Collection[str] = ()
) -> list[PlanStep]:
    """Return what applying would do; nothing is changed."""
    return _known(store, plan.name).steps(plan, anew)


def apply_pipeline(
    store: Store,
    plan: PipelinePlan,
    describe: Describe,
    *,
    interval_ms: int,
    checkpoint_frequency: int = 1,
    only_new: bool = False,
    anew: Collection[str] = (),
    failpoint: Failpoint = unarmed,
) -> list[PlanStep]:
    """Do what `plan_steps` says and return it; `describe` asks a source for a table's columns.

    With `only_new` what is there stays as it is, and so does what would read a changed relation.
    """
    with store.lock(f"apply {plan.name}"):
        for _ in range(TRIES):
            known = _known(store, plan.name)
            steps = known.steps(plan, anew)
            todo = _new_only(steps, plan) if only_new else steps
            _refuse(store, plan, known, todo)
            made = {s.name for s in todo if isinstance(s, Create | Change)}
            found = {t.name: _bound_table(t, describe) for t in plan.tables if t.name in made}
            failpoint("apply.before_commit")
            with store.transaction() as tx:
                _ensure_pipeline(tx, plan, interval_ms, checkpoint_frequency)
                tx.query("lock_pipeline", pipeline=plan.name)
                if not _known(tx, plan.name).is_same(known):
                    continue
                _Change(tx, plan, known, found).apply(todo)
            failpoint("apply.after_commit")
            return steps
    raise AlwaysMoving(plan.name)


def _new_only(steps: Sequence[PlanStep], plan: PipelinePlan) -> list[PlanStep]:
    """Return the creations that depend on nothing else in the plan."""
    beside = {step.name for group in builds(steps, plan) for step in group}
    gone = {step.name for step in steps if isinstance(step, Drop)}
    return [s for s in steps if isinstance(s, Create) and s.name not in beside | gone]


def _refuse(
    store: Statements, plan: PipelinePlan, known: _Known, steps: Sequence[PlanStep]
) -> None:
    dropped = {s.name for s in steps if isinstance(s, Drop)}
    names = {r.id: r.name for r in known.versions}
    for name in sorted(dropped):
        readers = sorted(
            r.name
            for r in known.current
            if r.kind == "view" and r.upstream is not None and names.get(r.upstream) == name
        )
        if left := [reader for reader in readers if reader not in dropped]:
            raise StillRead(name, left)
    for step in steps:
        if step.kind is not RelationKind.SOURCE:
            continue
        if isinstance(step, Drop):
            _refuse_unreachable(store, plan.name, step.name, known.sources[step.name])
        if isinstance(step, Change):
            _refuse_another_source(plan.source(step.name), known.sources[step.name])
        if isinstance(step, Create):
            for row in store.query("select_source", pipeline=plan.name, name=step.name):
                if row["dropping"]:
                    raise StillDropping(step.name)


def _refuse_unreachable(store: Statements, pipeline: str, name: str, stored: str) -> None:
    row = store.query("select_source", pipeline=pipeline, name=name)[0]
    if row["identity"] is not None and is_masked(parse_pipeline(pipeline, stored).sources[0]):
        raise ConfigError(
            f"source {name} cannot be dropped: its password stood in the file only, so that its "
            f"slot {row['slot']} would stay and keep WAL for ever; put its definition back, with "
            "the password as a SECRET, apply that, and drop it then"
        )


def _refuse_another_source(wanted: SourcePlan, stored: str) -> None:
    before = parse_pipeline(wanted.pipeline, stored).sources[0]
    for option in FIXED:
        if wanted.options.get(option) != before.options.get(option):
            raise Unsupported(
                f"source {wanted.name}: {option} cannot be changed, its tables have been read "
                "from there",
                hint="define a source of another name and let the tables come FROM it",
            )


def _ensure_pipeline(
    tx: Statements, plan: PipelinePlan, interval_ms: int, checkpoint_frequency: int
) -> None:
    tx.execute("ensure_pipeline", pipeline=plan.name, interval_ms=interval_ms)
    tx.execute(
        "set_default_frequency", pipeline=plan.name, checkpoint_frequency=checkpoint_frequency
    )
    tx.execute("ensure_graph", graph=main_graph(plan.name), pipeline=plan.name, kind="main")
    everything = maintenance_graph(plan.name, ALL)
    tx.execute("ensure_graph", graph=everything, pipeline=plan.name, kind="maintenance")


_Bound = tuple[Schema, dict[str, Any]]


@dataclass(frozen=True)
class _Change:
    """One transaction's work; `found` has the tables that are made, with their columns."""

    tx: Statements
    plan: PipelinePlan
    known: _Known
    found: Mapping[str, _Bound]

    def apply(self, steps: Sequence[PlanStep]) -> None:
        cancelled = {s.name for s in steps if isinstance(s, Cancel)}
        self._end(
            [r for r in self.known.versions if r.role == Role.NEXT and r.build is not None],
            cancelled,
            "another definition was applied",
        )
        dropped = {s.name for s in steps if isinstance(s, Drop)}
        self._end(self.known.current, dropped, "it was dropped")
        self._sources(steps)
        groups = builds(steps, self.plan)
        beside = {member.name for group in groups for member in group}
        for step in steps:
            if not isinstance(step, Create) or step.kind is RelationKind.SOURCE:
                continue
            if step.build is not None:
                self._create(step.name, Role.NEXT, step.build)
            elif step.name not in beside:
                self._create(step.name, Role.CURRENT, None)
        for group in groups:
            self._build({member.name for member in group})

    def _sources(self, steps: Sequence[PlanStep]) -> None:
        for step in steps:
            if step.kind is not RelationKind.SOURCE:
                continue
            named = {"pipeline": self.plan.name, "name": step.name}
            if isinstance(step, Drop):
                self.tx.execute("set_source_dropped", **named)
                continue
            source = self.plan.source(step.name)
            if isinstance(step, Create):
                self.tx.execute(
                    "ensure_source",
                    **named,
                    definition=source.definition,
                    slot=source.slot,
                    publication=source.publication,
                )
            elif isinstance(step, Change):
                self.tx.execute("set_source_definition", **named, definition=source.definition)

    def _build(self, names: set[str]) -> None:
        """Make next versions; or current ones, if none of those they replace was ever readable."""
        replaced = [r for r in self.known.current if r.name in names]
        if any(r.live_since is not None for r in replaced):
            number = self.tx.query("insert_build")[0]["build"]
            role, build = Role.NEXT, int(number)
        else:
            self._end(self.known.current, names, "its definition changed")
            role, build = Role.CURRENT, None
        in_order = [t.name for t in self.plan.tables] + [v.name for v in self.plan.views]
        for name in in_order:
            if name in names:
                self._create(name, role, build)

    def _end(self, relations: Sequence[Relation], names: Collection[str], why: str) -> None:
        """End relations and, with a view, its states: they share its graph."""
        graphs = {r.graph for r in relations if r.name in names}
        ids: list[int] = [r.id for r in relations if r.graph in graphs]
        if ids:
            # Before their roles change: who is in step is asked of what was there.
            self.tx.execute("fence_graphs", relations=ids)
            self.tx.execute("end_relations", relations=ids, why=why)

    def _create(self, name: str, role: Role, build: int | None) -> None:
        table, view = self.plan.table(name), self.plan.view(name)
        if table is not None:
            schema, origin = self.found[name]
            self._insert(table, name, "table", schema, origin, None, "Waiting", role, build)
        elif view is not None:
            upstream = self._upstream(view)
            bound = bind_view(view, upstream.schema)
            states = [(called, "state", schema) for called, schema in state_schemas(bound).items()]
            for called, kind, schema in ((name, "view", bound.output), *states):
                self._insert(
                    view, called, kind, schema, None, upstream.id, "WaitingForUpstream", role, build
                )

    def _upstream(self, view: ViewPlan) -> Relation:
        """Return the newest version of what a view reads: it may have been made just now."""
        found = [r for r in versions_of(self.tx, self.plan.name) if r.name == view.upstream]
        return max(found, key=lambda r: r.version)

    def _insert(
        self,
        plan: TablePlan | ViewPlan,
        name: str,
        kind: str,
        schema: Schema,
        origin: dict[str, Any] | None,
        upstream: int | None,
        state: str,
        role: Role,
        build: int | None,
    ) -> None:
        tx, pipeline = self.tx, self.plan.name
        # A view and its states share their number: both are made here and nowhere else.
        version = self._version(plan.name, name)
        graph = relation_graph(pipeline, plan.name, version)
        maintenance = maintenance_graph(pipeline, label(name, version))
        tx.execute("ensure_graph", graph=graph, pipeline=pipeline, kind="backfill")
        tx.execute("ensure_graph", graph=maintenance, pipeline=pipeline, kind="maintenance")
        tx.query(
            "insert_relation",
            pipeline=pipeline,
            name=name,
            version=version,
            role=role,
            build=build,
            kind=kind,
            definition=plan.definition,
            schema=schema.to_json(),
            origin=origin,
            vnode_count=plan.vnode_count,
            path=f"{pipeline}/{name}/v{version}",
            graph=graph,
            upstream=upstream,
            state=state,
        )

    def _version(self, owner: str, name: str) -> int:
        number = self.tx.query("select_next_version", pipeline=self.plan.name, name=owner)
        return int(number[0]["version"]) - (name != owner)


def _bound_table(plan: TablePlan, describe: Describe) -> _Bound:
    found = describe(plan)
    schema = bind_table(plan, found.schema)
    origin = {
        "oid": found.oid,
        "identity": found.identity,
        "unselected": [*found.unselected],
        "partial": not plan.snapshot or plan.snapshot_filter is not None,
        "types": found.types,
    }
    return schema, origin
