"""The two kinds of backfill, wired: a table from its source, a view from its table."""

from collections.abc import Callable, Collection, Iterator

from ops.backfill.cdc.cdc_backfill import CdcBackfillExecutor
from ops.backfill.cdc.cdc_backfill_v2 import ParallelizedCdcBackfillExecutor
from ops.backfill.cdc.split import scan_order
from ops.backfill.cdc.table_backfill import VnodeDone as SplitsDone
from ops.backfill.snapshot_backfill.executor import SnapshotBackfillExecutor
from ops.backfill.snapshot_backfill.executor import VnodeDone as VnodeRead
from ops.backfill.snapshot_backfill.phase import Phase
from ops.common.errors import ConfigError, UnknownRelation
from ops.common.table.relation import find_relation, relations_of
from ops.planner.apply import main_graph
from orchestration.deployment import Deployment
from orchestration.running import Tell, ensure_applied, lease, prepare, view_executor
from resources.control_store import ControlStore
from resources.pages import SparkPages


def backfill_table(
    deployment: Deployment,
    pipeline: str,
    table: str,
    vnodes: Collection[int],
    *,
    owner: str,
    tell: Tell,
    wait_s: float = 0.0,
    leaving: Callable[[], bool] = lambda: False,
) -> Iterator[SplitsDone]:
    """Read the splits of `vnodes` of a table; yields each vnode as it is finished."""
    plan = deployment.pipeline(pipeline)
    table_plan = plan.table(table)
    if table_plan is None:
        raise UnknownRelation(table, [t.name for t in plan.tables])
    _require_known(table, vnodes, table_plan.vnode_count)
    ensure_applied(deployment, plan)
    prepare(deployment, plan, tell=tell)
    relation = find_relation(relations_of(deployment.store, pipeline), table)
    source = deployment.source(plan.source(table_plan.source))
    external = (table_plan.external_schema, table_plan.external_table)
    one_reader = table_plan.parallelism == 0
    leading = 0 if one_reader else table_plan.split_column
    scan = source.key_columns(*external, scan_order(relation.schema.key, leading))
    pages = SparkPages(
        deployment.spark(),
        source,
        deployment.lake,
        *external,
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


def backfill_view(
    deployment: Deployment,
    pipeline: str,
    view: str,
    vnodes: Collection[int],
    *,
    owner: str,
    tell: Tell,
    wait_s: float = 0.0,
    leaving: Callable[[], bool] = lambda: False,
) -> Iterator[VnodeRead]:
    """Read a view's snapshot for `vnodes`; the last one to finish follows the log, too."""
    plan = deployment.pipeline(pipeline)
    view_plan = plan.view(view)
    if view_plan is None:
        raise UnknownRelation(view, [v.name for v in plan.views])
    _require_known(view, vnodes, view_plan.vnode_count)
    ensure_applied(deployment, plan)
    relations = relations_of(deployment.store, pipeline)
    relation = find_relation(relations, view)
    if relation.in_step or Phase(relation.state) is Phase.FINISHING:
        # The main graph moves it now: a new term here would end the stream run's.
        yield from finished_vnodes(deployment.store, relation.id, vnodes)
        return
    executor = view_executor(deployment, view_plan, relations)
    with lease(deployment, executor.output.graph, owner=owner, wait_s=wait_s) as keeper:
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


def _require_known(name: str, vnodes: Collection[int], count: int) -> None:
    outside = [v for v in vnodes if not 0 <= v < count]
    if outside:
        raise ConfigError(f"{name} has vnodes 0..{count - 1}; there is no {outside[0]}")


def finished_vnodes(
    store: ControlStore, relation: int, vnodes: Collection[int]
) -> Iterator[VnodeRead]:
    for row in store.query("select_vnode_progress", relation=relation):
        if row["vnode"] in vnodes and row["is_finished"]:
            yield VnodeRead(row["vnode"], row["row_count"])
