"""The two kinds of backfill, wired: a table from its source, a view from its table."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from ops.backfill.cdc.cdc_backfill import CdcBackfillExecutor
from ops.backfill.cdc.cdc_backfill_v2 import ParallelizedCdcBackfillExecutor
from ops.backfill.cdc.split import scan_order
from ops.backfill.cdc.table_backfill import VnodeDone as SplitsDone
from ops.backfill.snapshot_backfill.executor import SnapshotBackfillExecutor
from ops.backfill.snapshot_backfill.executor import VnodeDone as VnodeRead
from ops.backfill.snapshot_backfill.phase import Phase
from ops.common.errors import ConfigError, ConsistencyError, Fenced, TableStopped, is_transient
from ops.common.table.relation import Relation, Role, to_fill, versions_of
from ops.planner.apply import main_graph
from ops.planner.plan import TablePlan, ViewPlan
from orchestration.deployment import Deployment
from orchestration.running import Tell, ensure_known, lease, prepare
from orchestration.wiring import view_executor
from resources.control_store import ControlStore
from resources.pages import SparkPages


def backfill_table(
    deployment: Deployment,
    pipeline: str,
    table: str,
    vnodes: Collection[int] | None,
    *,
    owner: str,
    tell: Tell,
    wait_s: float = 0.0,
    leaving: Callable[[], bool] = lambda: False,
) -> Iterator[SplitsDone]:
    """Read the splits of `vnodes` of a table, or of all; yields each vnode as it is finished.

    It is the version being built that is read, if there is one.
    """
    applied = ensure_known(deployment, pipeline, tell=tell)
    table_plan, relation = applied.table(table)
    vnodes = _known_vnodes(table, vnodes, table_plan.vnode_count)
    prepare(deployment, applied, tell=tell)
    source = deployment.source(applied.sources[table_plan.source])
    one_reader = table_plan.parallelism == 0
    with _until_ended(deployment, relation, tell):
        _require_publishable(deployment, relation)
        leading = 0 if one_reader else table_plan.split_column
        scan = source.key_columns(
            table_plan.external_schema,
            table_plan.external_table,
            scan_order(relation.schema.key, leading),
        )
        pages = SparkPages(
            deployment.spark(),
            source,
            deployment.lake,
            table_plan.external_schema,
            table_plan.external_table,
            [(c.name, str(c.type)) for c in relation.schema.columns],
            scan,
            relation.schema.key[0],
            table_plan.snapshot_filter,
        )
        with lease(deployment, relation.graph, owner=owner, wait_s=wait_s) as keeper:
            kind = CdcBackfillExecutor if one_reader else ParallelizedCdcBackfillExecutor
            executor = kind(
                table_plan,
                relation,
                scan,
                deployment.store,
                source,
                pages,
                deployment.clock,
                deployment.failpoint,
                keeper,
                leaving,
            )
            yield from executor.run(vnodes)


def _require_publishable(deployment: Deployment, relation: Relation) -> None:
    """Refuse a new version that `prepare` has stopped: what it reads cannot be published."""
    for now in versions_of(deployment.store, relation.pipeline):
        if now.id == relation.id and now.role == Role.NEXT and now.state == "Stopped":
            raise TableStopped(now.name, now.why or "")


def backfill_view(
    deployment: Deployment,
    pipeline: str,
    view: str,
    vnodes: Collection[int] | None,
    *,
    owner: str,
    tell: Tell,
    wait_s: float = 0.0,
    leaving: Callable[[], bool] = lambda: False,
) -> Iterator[VnodeRead]:
    """Read a view's snapshot for `vnodes`, or all; the last one to finish follows the log, too."""
    applied = ensure_known(deployment, pipeline, tell=tell)
    view_plan, relation = applied.view(view)
    vnodes = _known_vnodes(view, vnodes, view_plan.vnode_count)
    if relation.in_step or Phase(relation.state) is Phase.FINISHING:
        # The main graph moves it now: a new term here would end the stream run's.
        yield from finished_vnodes(deployment.store, relation.id, vnodes)
        return
    executor = view_executor(deployment, applied, relation)
    with (
        _until_ended(deployment, relation, tell),
        lease(deployment, relation.graph, owner=owner, wait_s=wait_s) as keeper,
    ):
        backfill = SnapshotBackfillExecutor(
            executor,
            main_graph(pipeline),
            deployment.store,
            deployment.clock,
            deployment.failpoint,
            keeper,
            leaving,
        )
        yield from backfill.run(vnodes)


def version_to_fill(deployment: Deployment, plan: TablePlan | ViewPlan) -> int:
    """Return the number of the version that a backfill works on, or will make."""
    versions = versions_of(deployment.store, plan.pipeline)
    known = any(relation.name == plan.name for relation in versions)
    return to_fill(versions, plan.name).version if known else 1


@contextmanager
def _until_ended(deployment: Deployment, relation: Relation, tell: Tell) -> Iterator[None]:
    """End quietly when the relation was dropped or replaced meanwhile.

    A version that is built beside the current one and cannot be stops, with the reason shown.
    """
    try:
        yield
    except Fenced:
        if any(r.id == relation.id for r in versions_of(deployment.store, relation.pipeline)):
            raise
        tell(f"{relation.label} was dropped or replaced; its backfill ends")
    except Exception as error:
        if relation.role != Role.NEXT or is_transient(error):
            raise
        deployment.failpoint("build.before_stop")
        deployment.store.execute("stop_next", relation=relation.id, why=str(error))
        deployment.failpoint("build.after_stop")
        raise BuildStopped(relation, error) from error


class BuildStopped(ConsistencyError):
    def __init__(self, relation: Relation, why: Exception) -> None:
        super().__init__(
            f"version {relation.version} of {relation.name} cannot be built: {why}; the current "
            "one goes on. Change its definition and `tidegate plan --apply`, or, once the cause is "
            f"gone, `tidegate backfill {relation.name} --anew`"
        )


def _known_vnodes(name: str, vnodes: Collection[int] | None, count: int) -> Collection[int]:
    if vnodes is None:
        return range(count)
    outside = [v for v in vnodes if not 0 <= v < count]
    if outside:
        raise ConfigError(f"{name} has vnodes 0..{count - 1}; there is no {outside[0]}")
    return vnodes


def finished_vnodes(
    store: ControlStore, relation: int, vnodes: Collection[int]
) -> Iterator[VnodeRead]:
    for row in store.query("select_vnode_progress", relation=relation):
        if row["vnode"] in vnodes and row["is_finished"]:
            yield VnodeRead(row["vnode"], row["row_count"])
