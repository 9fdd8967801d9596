"""What a user does to the definitions of a pipeline: plan, apply, create, drop, build anew.

From a file or from a text; whether or not a stream runs, in this process or another. Each is one
short call: it changes what the control store holds, and a stream run takes that in between two
barriers. What is dropped or replaced is taken down by maintenance, and at once where nobody has it.
"""

from collections.abc import Collection, Iterator, Sequence

from ops.backfill.cdc.prepare import begin_anew
from ops.common.errors import ConfigError, UnknownRelation
from ops.planner.apply import StillRead, main_graph, plan_steps
from ops.planner.diff import Change, Create, Drop, PlanStep, RelationKind, render
from ops.planner.parse import parse_pipeline
from ops.planner.plan import PipelinePlan, TablePlan
from ops.planner.stored import Applied
from orchestration import maintenance, running
from orchestration.deployment import Deployment


def apply(
    deployment: Deployment, plan: PipelinePlan, *, anew: Collection[str] = ()
) -> list[PlanStep]:
    """Make a pipeline what `plan` says: create, change, drop; return what was done."""
    steps = running.apply_plan(deployment, plan, anew=anew)
    maintenance.take_down(deployment, plan.name)
    return steps


def apply_text(deployment: Deployment, pipeline: str, text: str) -> list[PlanStep]:
    """Make a pipeline what the whole of `text` says."""
    return apply(deployment, parse_pipeline(pipeline, text))


def create(deployment: Deployment, pipeline: str, statement: str) -> list[PlanStep]:
    """Add one definition to what is applied; one whose name is taken is refused."""
    known = _texts(deployment, pipeline)
    plan = parse_pipeline(pipeline, ";\n".join([*known.values(), statement]))
    return apply(deployment, plan)


def drop(deployment: Deployment, pipeline: str, *names: str) -> list[PlanStep]:
    """Take definitions out of what is applied; refused while another reads one of them."""
    known = _texts(deployment, pipeline)
    for name in names:
        if name not in known:
            raise UnknownRelation(name, list(known))
    _refuse_read(deployment.applied(pipeline), names)
    kept = [text for name, text in known.items() if name not in names]
    return apply(deployment, parse_pipeline(pipeline, ";\n".join(kept)))


def build_anew(deployment: Deployment, pipeline: str, name: str) -> list[str]:
    """Build a table or view, and all that reads it, beside what is there; return their names."""
    text = ";\n".join(_texts(deployment, pipeline).values())
    steps = apply(deployment, parse_pipeline(pipeline, text), anew=[name])
    return [step.name for step in steps if isinstance(step, Change)]


def begin_source_anew(deployment: Deployment, pipeline: str, name: str, *, owner: str) -> list[str]:
    """Forget where the stream of a source was and build all its tables anew; return their names.

    For a slot that is lost or ahead, and for another server in the source's place. Nobody may run
    the stream meanwhile.
    """
    applied = deployment.applied(pipeline)
    plan = applied.sources[name]
    tables = [pair for pair in applied.tables if pair[0].source == name]
    wait_s = deployment.settings.lease_seconds
    with running.lease(deployment, main_graph(pipeline), owner=owner, wait_s=wait_s):
        begin_anew(
            deployment.store,
            deployment.source(plan),
            plan,
            tables,
            failpoint=deployment.failpoint,
        )
    text = ";\n".join(_texts(deployment, pipeline).values())
    steps = apply(
        deployment, parse_pipeline(pipeline, text), anew={table.name for table, _ in tables}
    )
    return [step.name for step in steps if isinstance(step, Change)]


def explain(deployment: Deployment, plan: PipelinePlan) -> Iterator[str]:
    """Say what applying would do, what it costs, and what has stopped."""
    steps = plan_steps(deployment.store, plan)
    costs = {step.name: cost for step in steps if (cost := _cost(deployment, plan, step))}
    for line in render(steps).splitlines():
        name = line.split(":")[0].split(" ")[-1]
        yield f"{line}{costs.pop(name)}" if name in costs else line
    if deployment.store.query("select_graph", graph=main_graph(plan.name)):
        for relation in deployment.applied(plan.name).versions:
            if relation.state == "Stopped" and relation.role == "current":
                yield (
                    f"! {relation.name} is stopped: {relation.why}; "
                    f"`tidegate backfill {relation.name} --anew` builds it again beside it"
                )


def _cost(deployment: Deployment, plan: PipelinePlan, step: PlanStep) -> str:
    match step:
        case Create(RelationKind.TABLE, name) | Change(RelationKind.TABLE, name):
            table = plan.table(name)
            assert table is not None
            return _table_cost(deployment, plan, table)
        case Change(RelationKind.VIEW, name):
            return "; its snapshot is read again from the lake, the old one is read meanwhile"
        case Drop(RelationKind.TABLE | RelationKind.VIEW, name):
            return f"; its files go {maintenance.UNLISTED_SECONDS / 60:.0f} minutes after that"
        case _:
            return ""


def _table_cost(deployment: Deployment, plan: PipelinePlan, table: TablePlan) -> str:
    source = deployment.source(plan.source(table.source))
    rows = source.estimate_rows(table.external_schema, table.external_table)
    left_out = ""
    if table.columns is None:
        generated = source.generated_columns(table.external_schema, table.external_table)
        if generated:
            left_out = f"; left out, since they are generated: {', '.join(generated)}"
    if rows is None:
        return f"; how many rows are to be read is not known, ANALYZE tells{left_out}"
    splits = max(1, -(-rows // table.rows_per_split))
    many = f"{splits:,} split{'s' if splits > 1 else ''}"
    return f"; about {rows:,} rows to read, in {many}{left_out}"


def _texts(deployment: Deployment, pipeline: str) -> dict[str, str]:
    """Return what is applied, by name; a version being built stands for what it will replace."""
    applied = deployment.applied(pipeline)
    rows = deployment.store.query("select_sources", pipeline=pipeline)
    texts = {row["name"]: str(row["definition"]) for row in rows}
    shown = [r for r in applied.versions if r.kind != "state"]
    for relation in sorted(shown, key=lambda r: (r.role == "next", r.id)):
        texts.pop(relation.name, None)
        texts[relation.name] = relation.definition
    if not texts:
        raise ConfigError(f"nothing of {pipeline} is applied yet; `tidegate plan --apply` does it")
    return texts


def _refuse_read(applied: Applied, names: Sequence[str]) -> None:
    """Refuse by name what the parser would only call a view of something undefined."""
    for name in names:
        ids = {r.id for r in applied.versions if r.name == name}
        readers = {r.name for r in applied.versions if r.kind == "view" and r.upstream in ids}
        readers |= {r.name for plan, r in applied.tables if plan.source == name}
        if left := sorted(readers - set(names)):
            raise StillRead(name, left)
