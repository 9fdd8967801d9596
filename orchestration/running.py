"""The stream run of a pipeline, wired, and what all its runs share: applying, preparing, leases.

Dagster's assets and the command line call the same functions; each opens what it needs, takes the
lease of its graph, and hands over to one executor. The backfills are in `backfilling`, folding and
collecting in `maintenance`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from ops.aggregate.view_actor import ViewActor
from ops.aggregate.view_executor import ViewExecutor
from ops.backfill.cdc.pg_values import SourceType, reads_binary
from ops.backfill.cdc.pgoutput import Binding, TableName
from ops.backfill.cdc.prepare import committed_position, prepare_source
from ops.backfill.cdc.source_executor import SourceExecutor
from ops.backfill.cdc.transaction_buffer import PREFIX
from ops.backfill.cdc.verify.taking import RepairTaker
from ops.barrier_worker.commit import open_attempt
from ops.barrier_worker.lease import LeaseKeeper, Term, acquire, take_over
from ops.barrier_worker.main_graph import PipelineGraph
from ops.barrier_worker.recovery import GiveUp, Patience
from ops.barrier_worker.worker import BarrierWorker
from ops.common.barrier import Barrier
from ops.common.epoch import Epoch
from ops.common.errors import ConfigError, ConsistencyError, LeaseHeld
from ops.common.table.merge import LogMerger
from ops.common.table.relation import Relation, StagedFile, find_relation, relations_of
from ops.planner.apply import (
    apply_pipeline,
    bound_view,
    main_graph,
    state_schemas,
)
from ops.planner.plan import PipelinePlan, SourcePlan, ViewPlan
from orchestration.deployment import Deployment
from resources.control_store import StoreUnreachable
from resources.postgres import PostgresSource
from resources.postgres_slot import SlotInUse, SlotReader

Tell = Callable[[str], None]
Tables = dict[TableName, tuple[Relation, Binding]]


def ensure_applied(deployment: Deployment, plan: PipelinePlan) -> None:
    """Bind and store what is new in the definition; a pipeline that is known costs one look."""
    apply_pipeline(
        deployment.store,
        plan,
        deployment.describe(plan),
        interval_ms=deployment.settings.barrier_interval_ms,
        checkpoint_frequency=deployment.settings.checkpoint_frequency,
        failpoint=deployment.failpoint,
    )


def prepare(deployment: Deployment, plan: PipelinePlan, *, tell: Tell) -> None:
    """Have publication and slot of every source; idempotent, run by whoever comes first."""
    for source in plan.sources:
        prepare_source(
            deployment.store,
            deployment.source(source),
            source,
            [t for t in plan.tables if t.source == source.name],
            on_wait=tell,
            clock=deployment.clock,
            failpoint=deployment.failpoint,
        )


@contextmanager
def lease(
    deployment: Deployment, graph: str, *, owner: str, wait_s: float = 0.0
) -> Iterator[LeaseKeeper]:
    """Own a graph for the time of the block; wait for a lease that is running out."""
    seconds = deployment.settings.lease_seconds
    deadline = time.monotonic() + wait_s
    while True:
        try:
            term = acquire(
                deployment.store,
                graph,
                owner=owner,
                seconds=seconds,
                failpoint=deployment.failpoint,
            )
            break
        except LeaseHeld:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    with LeaseKeeper(
        deployment.store, term, seconds=seconds, failpoint=deployment.failpoint
    ) as keeper:
        deployment.on_lease(owner, term)
        yield keeper


def stream(
    deployment: Deployment,
    pipeline: str,
    *,
    owner: str,
    until: Callable[[], bool],
    tell: Tell,
    wait_s: float = 0.0,
) -> None:
    """Run the main graph until `until` says so; what may pass is tried again from the commit."""
    plan = deployment.pipeline(pipeline)
    ensure_applied(deployment, plan)
    patience = Patience()
    with lease(deployment, main_graph(pipeline), owner=owner, wait_s=wait_s) as keeper:
        # What is known now is taken in by the graph below, which reads the list later: else
        # `prepare` would wait for a running stream to do so, and that is this one.
        _bind(deployment, relations_of(deployment.store, pipeline), keeper.term)
        # Under the lease: a run that waits here for old transactions can be told from a dead one.
        prepare(deployment, plan, tell=tell)
        while True:
            worker = _worker(deployment, pipeline, keeper)
            try:
                plan = deployment.pipeline(pipeline)
                if _stream_once(deployment, plan, worker, owner=owner, until=until):
                    return
                tell(f"{pipeline} has new relations; taking them in")
                committed = committed_epoch(deployment, keeper.term.graph)
            except Exception as error:
                moved = worker.committed > keeper.term.committed
                committed, patience = _recover(
                    deployment, keeper, patience, error, moved=moved, tell=tell
                )
            keeper.term = replace(keeper.term, committed=committed)


def _recover(
    deployment: Deployment,
    keeper: LeaseKeeper,
    patience: Patience,
    error: Exception,
    *,
    moved: bool,
    tell: Tell,
) -> tuple[Epoch, Patience]:
    """Wait as long as it makes sense; return where to go on from, or raise what ended it.

    The store itself may be what is away: then it is asked again, by the same rule.
    """
    committed: Epoch | None = None
    while True:
        with suppress(StoreUnreachable):
            committed = committed_epoch(deployment, keeper.term.graph)
        patience, then = patience.after(error, now_s=time.monotonic(), moved=moved)
        if isinstance(then, GiveUp):
            raise error
        tell(f"{error}; going on from the last commit in {then.wait_s:.1f} s")
        time.sleep(then.wait_s)
        keeper.check()
        if committed is not None:
            return committed, patience
        moved = False


def _worker(deployment: Deployment, pipeline: str, keeper: LeaseKeeper) -> BarrierWorker:
    return BarrierWorker(
        pipeline,
        keeper.term.graph,
        deployment.store,
        deployment.clock,
        deployment.failpoint,
        keeper,
        deployment.settings.idle_commit_seconds,
    )


def _stream_once(
    deployment: Deployment,
    plan: PipelinePlan,
    worker: BarrierWorker,
    *,
    owner: str,
    until: Callable[[], bool],
) -> bool:
    with ExitStack() as stack:
        graph = _main_graph(deployment, plan, worker, owner=owner, stack=stack)
        return worker.run(graph, until=until)


def _main_graph(
    deployment: Deployment,
    plan: PipelinePlan,
    worker: BarrierWorker,
    *,
    owner: str,
    stack: ExitStack,
) -> PipelineGraph:
    store = deployment.store
    relations = relations_of(store, plan.name)
    _bind(deployment, relations, worker.keeper.term)
    views = {r.name: r for r in relations if r.kind == "view"}
    terms: dict[str, Term] = {
        name: take_over(store, view.graph, owner=owner, failpoint=deployment.failpoint)
        for name, view in views.items()
        if view.in_step
    }
    executors = {view.name: view_executor(deployment, view, relations) for view in plan.views}
    actors = [
        ViewActor(
            executors[view.name],
            store=store,
            in_step=views[view.name].in_step,
            open_attempt=partial(
                open_attempt,
                store,
                worker.graph,
                worker.keeper.term.term,
                f"{views[view.name].path}/_attempts",
                failpoint=deployment.failpoint,
            ),
            committed=lambda: worker.committed,
            epoch_of_view=partial(_epoch_of_view, terms, view.name),
        )
        for view in plan.views
    ]

    known = {view.name: actor for view, actor in zip(plan.views, actors, strict=True)}
    first = []
    for view in plan.views:
        reads = known.get(view.upstream)
        (first if reads is None else reads.downstream).append(known[view.name])

    def forward(barrier: Barrier, files: tuple[StagedFile, ...]) -> None:
        for actor in first:
            actor.forward(barrier, files)

    sources = {}
    for source_plan in plan.sources:
        source = deployment.source(source_plan)
        lsn = committed_position(store, source, source_plan)
        tables = _bindings(plan, source_plan.name, relations)
        reader = stack.enter_context(_start_reader(source, source_plan, lsn, tables))
        sources[source_plan.name] = SourceExecutor(
            pipeline=plan.name,
            source=source_plan.name,
            stream=reader,
            emit_message=partial(source.emit_message, PREFIX),
            tables=tables,
            committed_lsn=lsn,
            lake=deployment.lake,
            clock=deployment.clock,
            failpoint=deployment.failpoint,
            forward=forward,
            repairs=RepairTaker(plan.name, store, deployment.lake, deployment.failpoint),
        )
    return PipelineGraph(
        plan.name,
        worker.graph,
        owner,
        store,
        deployment.failpoint,
        sources,
        actors,
        views,
        {name: executor.states for name, executor in executors.items()},
        terms,
        maintain=lambda epoch: _merge_logs(deployment, plan.name, worker),
    )


def _bind(deployment: Deployment, relations: list[Relation], term: Term) -> None:
    """Say that this run takes these relations' changes: from now on they may be published."""
    deployment.failpoint("stream.before_bind")
    deployment.store.execute("bind_relations", term=term.term, relations=[r.id for r in relations])
    deployment.failpoint("stream.after_bind")


def _start_reader(source: PostgresSource, plan: SourcePlan, lsn: int, tables: Tables) -> SlotReader:
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


def _source_types(origin: dict[str, Any]) -> dict[str, SourceType] | None:
    """Return the types at the source; None of a table that was bound before they were kept."""
    types = origin.get("types")
    return None if types is None else {name: (oid, mod) for name, (oid, mod) in types.items()}


def _epoch_of_view(terms: dict[str, Term], view: str) -> Epoch:
    return terms[view].committed


def _bindings(plan: PipelinePlan, source: str, relations: list[Relation]) -> Tables:
    """Return the tables to decode: those of this source that are not stopped."""
    bindings: Tables = {}
    for table in plan.tables:
        relation = find_relation(relations, table.name)
        if table.source != source or relation.state == "Stopped":
            continue
        assert relation.origin is not None
        key = (table.external_schema, table.external_table)
        bindings[key] = (
            relation,
            Binding(
                relation.schema,
                oid=relation.origin["oid"],
                identity=relation.origin["identity"],
                unselected=frozenset(relation.origin["unselected"]),
                types=_source_types(relation.origin),
            ),
        )
    return bindings


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
    for relation in relations_of(deployment.store, pipeline):
        if relation.id in wanted:
            merger.merge_if_many(relation, limit=limit)


def view_executor(
    deployment: Deployment, view: ViewPlan, relations: list[Relation]
) -> ViewExecutor:
    bound = bound_view(view, relations)
    return ViewExecutor(
        bound,
        output=find_relation(relations, view.name),
        states=tuple(find_relation(relations, name) for name in state_schemas(bound)),
        upstream=find_relation(relations, view.upstream),
        spark=deployment.spark(),
        lake=deployment.lake,
        failpoint=deployment.failpoint,
    )


def flush(
    deployment: Deployment,
    pipeline: str,
    *,
    timeout_s: float = 120.0,
    check: Callable[[], None] = lambda: None,
) -> Epoch:
    """Ask for a checkpoint that holds all the source has committed by now; wait for it.

    `check` is called meanwhile and may raise what makes waiting useless.
    """
    store = deployment.store
    _require_not_paused(deployment, pipeline)
    command = store.query("insert_command", pipeline=pipeline, kind="flush")[0]["id"]
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        done = store.query("select_command", command=command)[0]["done_epoch"]
        if done is not None:
            return Epoch(done)
        _require_not_paused(deployment, pipeline)
        check()
        time.sleep(0.05)
    raise NobodyAnswers(pipeline, timeout_s)


def _require_not_paused(deployment: Deployment, pipeline: str) -> None:
    if deployment.store.query("select_pipeline", pipeline=pipeline)[0]["paused"]:
        raise Paused(pipeline)


class Paused(ConfigError):
    def __init__(self, pipeline: str) -> None:
        super().__init__(
            f"{pipeline} is paused and reads nothing from its sources; "
            f"`tidegate resume {pipeline}` lets it go on"
        )


class NobodyAnswers(ConsistencyError):
    def __init__(self, pipeline: str, seconds: float) -> None:
        super().__init__(
            f"no stream run of {pipeline} made a checkpoint within {seconds:.0f} s; start one "
            f"with `tidegate up` or `tidegate run {pipeline}`"
        )


def committed_epoch(deployment: Deployment, graph: str) -> Epoch:
    return Epoch(deployment.store.query("select_graph", graph=graph)[0]["committed"])
