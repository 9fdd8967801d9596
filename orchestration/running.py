"""The stream run of a pipeline, wired, and what all its runs share: applying, preparing, leases.

Dagster's assets and the command line call the same functions; each opens what it needs, takes the
lease of its graph, and hands over to one executor. The backfills are in `backfilling`, folding and
collecting in `maintenance`.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

from ops.aggregate.view_actor import ViewActor
from ops.aggregate.view_executor import ViewExecutor
from ops.backfill.cdc.bound import binding
from ops.backfill.cdc.pg_values import reads_binary
from ops.backfill.cdc.prepare import committed_position, prepare_source, stop_unpublished
from ops.backfill.cdc.row_versions import RowVersions
from ops.backfill.cdc.source_executor import SourceExecutor
from ops.backfill.cdc.transaction_buffer import PREFIX
from ops.backfill.cdc.verify.taking import RepairTaker
from ops.backfill.cdc.versions import Bound, bound_names
from ops.barrier_worker.commit import open_attempt
from ops.barrier_worker.lease import LeaseKeeper, Term, acquire, take_over
from ops.barrier_worker.main_graph import PipelineGraph
from ops.barrier_worker.recovery import GiveUp, Patience
from ops.barrier_worker.worker import BarrierWorker
from ops.common.barrier import Barrier
from ops.common.epoch import Epoch
from ops.common.errors import ConfigError, ConsistencyError, LeaseHeld, Unsupported
from ops.common.schema import Schema
from ops.common.table.merge import LogMerger
from ops.common.table.relation import Relation, Role, StagedFile, versions_of
from ops.planner.apply import apply_pipeline, main_graph
from ops.planner.bind_view import bind_view
from ops.planner.diff import Create, PlanStep, is_work, render
from ops.planner.plan import PipelinePlan, SourcePlan, TablePlan, ViewPlan
from ops.planner.stored import Applied
from orchestration.deployment import Deployment
from resources.control_store import StoreUnreachable
from resources.postgres import PostgresSource
from resources.postgres_rows import read_rows
from resources.postgres_slot import SlotInUse, SlotReader

Tell = Callable[[str], None]


def apply_plan(
    deployment: Deployment,
    plan: PipelinePlan,
    *,
    only_new: bool = False,
    anew: Collection[str] = (),
) -> list[PlanStep]:
    """Make the store hold what `plan` asks for; a stream that runs takes it in by itself."""
    return apply_pipeline(
        deployment.store,
        plan,
        deployment.describe(plan),
        interval_ms=deployment.settings.barrier_interval_ms,
        checkpoint_frequency=deployment.settings.checkpoint_frequency,
        only_new=only_new,
        anew=anew,
        failpoint=deployment.failpoint,
    )


def ensure_applied(deployment: Deployment, plan: PipelinePlan) -> str | None:
    """Bind and store what is new in the definition; a pipeline that is known costs one look.

    What was changed or dropped in it waits for `tidegate plan --apply`; the sentence returned says
    so.
    """
    steps = apply_plan(deployment, plan, only_new=True)
    left = [step for step in steps if is_work([step]) and not isinstance(step, Create)]
    if not left:
        return None
    said = ", ".join(line.strip() for line in render(left).splitlines()[:-1])
    return f"not applied yet: {said}; `tidegate plan --apply` does it"


def ensure_known(deployment: Deployment, pipeline: str, *, tell: Tell) -> Applied:
    """Return a pipeline as applied, after what is new in its file, if it has one."""
    plan = deployment.pipelines().get(pipeline)
    if plan is not None:
        waiting = ensure_applied(deployment, plan)
        if waiting is not None:
            tell(waiting)
    elif not deployment.store.query("select_graph", graph=main_graph(pipeline)):
        deployment.pipeline(pipeline)
    return deployment.applied(pipeline)


def prepare(deployment: Deployment, applied: Applied, *, tell: Tell) -> None:
    """Have publication and slot of every source; idempotent, run by whoever comes first."""
    for source in applied.sources.values():
        prepare_source(
            deployment.store,
            deployment.source(source),
            source,
            [pair for pair in applied.tables if pair[0].source == source.name],
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
    applied = ensure_known(deployment, pipeline, tell=tell)
    patience = Patience()
    with lease(deployment, main_graph(pipeline), owner=owner, wait_s=wait_s) as keeper:
        # What is known now is taken in by the graph below, which reads the list later: else
        # `prepare` would wait for a running stream to do so, and that is this one.
        _bind(deployment, applied, keeper.term, ())
        # Under the lease: a run that waits here for old transactions can be told from a dead one.
        prepare(deployment, applied, tell=tell)
        while True:
            worker = _worker(deployment, pipeline, keeper)
            try:
                applied = deployment.applied(pipeline)
                if _stream_once(deployment, applied, worker, owner=owner, until=until):
                    return
                tell(f"the relations of {pipeline} have changed; going on with them as they are")
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
    applied: Applied,
    worker: BarrierWorker,
    *,
    owner: str,
    until: Callable[[], bool],
) -> bool:
    with ExitStack() as stack:
        graph = _main_graph(deployment, applied, worker, owner=owner, stack=stack)
        return worker.run(graph, until=until)


def _main_graph(
    deployment: Deployment,
    applied: Applied,
    worker: BarrierWorker,
    *,
    owner: str,
    stack: ExitStack,
) -> PipelineGraph:
    store, pipeline = deployment.store, applied.pipeline
    prepared = _prepared(deployment, applied)
    _bind(deployment, applied, worker.keeper.term, [s.name for s in prepared])
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


def _bind(deployment: Deployment, applied: Applied, term: Term, sources: Sequence[str]) -> None:
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
