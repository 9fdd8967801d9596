"""The stream run of a pipeline, wired, and what all its runs share: applying, preparing, leases.

Dagster's assets and the command line call the same functions; each opens what it needs, takes the
lease of its graph, and hands over to one executor. The backfills are in `backfilling`, folding and
collecting in `maintenance`.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from ops.backfill.cdc.prepare import prepare_source
from ops.barrier_worker.lease import LeaseKeeper, acquire
from ops.barrier_worker.recovery import GiveUp, Patience
from ops.barrier_worker.worker import BarrierWorker
from ops.common.epoch import Epoch
from ops.common.errors import ConfigError, ConsistencyError, LeaseHeld
from ops.planner.apply import apply_pipeline, main_graph
from ops.planner.diff import Create, PlanStep, is_work, render
from ops.planner.plan import PipelinePlan
from ops.planner.stored import Applied
from orchestration.deployment import Deployment
from orchestration.wiring import bind, wired
from resources.control_store import StoreUnreachable

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
        bind(deployment, applied, keeper.term, ())
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
        graph = wired(deployment, applied, worker, owner=owner, stack=stack)
        return worker.run(graph, until=until)


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
