"""A main graph, wired: its sources with their slots, its views in the order in which they read.

    slot ──▶ SourceExecutor ──files──▶ ViewActor ──files──▶ ViewActor of a view on it

What takes part is what is applied when the graph is made; a change makes it anew.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from ops.aggregate.view_actor import ViewActor
from ops.aggregate.view_executor import ViewExecutor
from ops.backfill.cdc.bound import binding
from ops.backfill.cdc.pg_values import reads_binary
from ops.backfill.cdc.prepare import committed_position, stop_unpublished
from ops.backfill.cdc.row_versions import RowVersions
from ops.backfill.cdc.source_executor import SourceExecutor
from ops.backfill.cdc.transaction_buffer import PREFIX
from ops.backfill.cdc.verify.taking import RepairTaker
from ops.backfill.cdc.versions import Bound, bound_names
from ops.barrier_worker.commit import open_attempt
from ops.barrier_worker.lease import Term, take_over
from ops.barrier_worker.main_graph import PipelineGraph
from ops.barrier_worker.worker import BarrierWorker
from ops.common.barrier import Barrier
from ops.common.epoch import Epoch
from ops.common.errors import Unsupported
from ops.common.schema import Schema
from ops.common.table.merge import LogMerger
from ops.common.table.relation import Relation, Role, StagedFile, versions_of
from ops.planner.bind_view import bind_view
from ops.planner.plan import SourcePlan, TablePlan, ViewPlan
from ops.planner.stored import Applied
from orchestration.deployment import Deployment
from resources.postgres import PostgresSource
from resources.postgres_rows import read_rows
from resources.postgres_slot import SlotInUse, SlotReader


def wired(
    deployment: Deployment,
    applied: Applied,
    worker: BarrierWorker,
    *,
    owner: str,
    stack: ExitStack,
) -> PipelineGraph:
    """Return the main graph of what is applied; `stack` closes its readers."""
    store, pipeline = deployment.store, applied.pipeline
    prepared = _prepared(deployment, applied)
    bind(deployment, applied, worker.keeper.term, [s.name for s in prepared])
    views = {r.label: r for _, r in applied.views if r.state != "Stopped"}
    plans = {relation.label: plan for plan, relation in applied.views}
    terms: dict[str, Term] = {
        name: take_over(store, view.graph, owner=owner, failpoint=deployment.failpoint)
        for name, view in views.items()
        if view.in_step
    }
    actors = [
        ViewActor(
            view_executor(deployment, applied, view),
            store=store,
            in_step=view.in_step,
            open_attempt=partial(
                open_attempt,
                store,
                worker.graph,
                worker.keeper.term.term,
                f"{view.path}/_attempts",
                failpoint=deployment.failpoint,
            ),
            committed=lambda: worker.committed,
            epoch_of_view=partial(_epoch_of_view, terms, label),
        )
        for label, view in views.items()
    ]

    by_relation = {view.id: actor for view, actor in zip(views.values(), actors, strict=True)}
    first = []
    for view in views.values():
        reads = None if view.upstream is None else by_relation.get(view.upstream)
        (first if reads is None else reads.downstream).append(by_relation[view.id])

    def forward(barrier: Barrier, files: tuple[StagedFile, ...]) -> None:
        for actor in first:
            actor.forward(barrier, files)

    sources = {}
    for source_plan in prepared:
        source = deployment.source(source_plan)
        lsn = committed_position(store, source, source_plan)
        mine = [pair for pair in applied.tables if pair[0].source == source_plan.name]
        stopped = stop_unpublished(store, source, source_plan, mine, failpoint=deployment.failpoint)
        tables = _bindings([pair for pair in mine if pair[1].id not in stopped])
        reader = stack.enter_context(_start_reader(source, source_plan, lsn, tables))
        sources[source_plan.name] = SourceExecutor(
            pipeline=pipeline,
            source=source_plan.name,
            stream=reader,
            emit_message=partial(source.emit_message, PREFIX),
            versions=RowVersions(
                store,
                deployment.lake,
                deployment.spark,
                lambda: worker.committed,
                partial(read_rows, source),
                source.attributes,
            ),
            tables=tables,
            committed_lsn=lsn,
            lake=deployment.lake,
            clock=deployment.clock,
            failpoint=deployment.failpoint,
            forward=forward,
            repairs=RepairTaker(pipeline, store, deployment.lake, deployment.failpoint),
        )
    return PipelineGraph(
        pipeline,
        worker.graph,
        owner,
        store,
        deployment.failpoint,
        sources,
        actors,
        views,
        {label: applied.states(view) for label, view in views.items()},
        terms,
        maintain=lambda epoch: _merge_logs(deployment, pipeline, worker),
        misfit=partial(_misfit, plans),
        is_building=any(r.role == Role.NEXT for r in applied.versions),
    )


def _misfit(plans: Mapping[str, ViewPlan], view: str, upstream: Schema) -> str | None:
    try:
        bind_view(plans[view], upstream)
    except Unsupported as error:
        return str(error)
    return None


def _prepared(deployment: Deployment, applied: Applied) -> list[SourcePlan]:
    """Return the sources whose slot is there; a new one has it once somebody fills its tables."""
    rows = deployment.store.query("select_sources", pipeline=applied.pipeline)
    ready = {row["name"] for row in rows if row["identity"] is not None}
    return [source for name, source in applied.sources.items() if name in ready]


def bind(deployment: Deployment, applied: Applied, term: Term, sources: Sequence[str]) -> None:
    """Say that this run takes these relations' changes: from now on they may be published.

    What it had before and has no more may be taken down.
    """
    deployment.failpoint("stream.before_bind")
    with deployment.store.transaction() as tx:
        tx.execute(
            "bind_relations",
            pipeline=applied.pipeline,
            term=term.term,
            relations=[r.id for r in applied.versions],
        )
        tx.execute("bind_sources", pipeline=applied.pipeline, term=term.term, sources=list(sources))
    deployment.failpoint("stream.after_bind")


def _start_reader(source: PostgresSource, plan: SourcePlan, lsn: int, tables: Bound) -> SlotReader:
    """Return the slot's reader; a reader whose term is over and that hangs is disconnected."""
    binary = reads_binary(bound.schema for _, bound in tables.values())
    reader = SlotReader(source)
    try:
        reader.start(plan.slot, plan.publication, lsn, binary=binary)
    except SlotInUse:
        # We hold the lease: a reader that hangs has lost it, and one that lives is somebody else's.
        reader.close()
        source.disconnect_reader(plan.slot)
        reader = SlotReader(source)
        reader.start(plan.slot, plan.publication, lsn, binary=binary)
    return reader


def _epoch_of_view(terms: dict[str, Term], view: str) -> Epoch:
    return terms[view].committed


def _bindings(tables: Sequence[tuple[TablePlan, Relation]]) -> Bound:
    """Return what is to be decoded: the versions of tables that are not stopped."""
    return bound_names(
        [
            ((table.external_schema, table.external_table), relation, binding(relation))
            for table, relation in tables
            if relation.state != "Stopped"
        ]
    )


def _merge_logs(deployment: Deployment, pipeline: str, worker: BarrierWorker) -> None:
    limit = deployment.max_log_files
    many = deployment.store.query("select_log_counts", pipeline=pipeline, limit=limit)
    if not many:
        return
    merger = LogMerger(
        deployment.store,
        deployment.lake,
        deployment.spark(),
        deployment.failpoint,
        worker.graph,
        worker.keeper.term.term,
    )
    wanted = {row["relation"] for row in many}
    for relation in versions_of(deployment.store, pipeline):
        if relation.id in wanted:
            merger.merge_if_many(relation, limit=limit)


def view_executor(deployment: Deployment, applied: Applied, view: Relation) -> ViewExecutor:
    return ViewExecutor(
        applied.bound(view),
        output=view,
        states=applied.states(view),
        upstream=applied.upstream(view),
        spark=deployment.spark(),
        lake=deployment.lake,
        failpoint=deployment.failpoint,
    )
