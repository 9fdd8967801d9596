"""Comparing a live table with its source, and repairing it, wired.

Somebody must run the stream meanwhile; the command line attends to that (`attendance.attended`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ops.backfill.cdc.prepare import committed_position
from ops.backfill.cdc.renew import renew_source
from ops.backfill.cdc.verify.canonical import postgres_hash
from ops.backfill.cdc.verify.executor import VerifyExecutor
from ops.backfill.cdc.verify.ranges import ALL, KeyRange
from ops.backfill.cdc.verify.report import VerifyReport
from ops.common.errors import ConfigError, LeaseHeld, SourceBroken, UnknownRelation
from ops.common.table.relation import relations_of
from ops.common.table.state_table import StateTable
from ops.planner.apply import main_graph, verify_graph
from ops.planner.plan import TablePlan
from orchestration import running
from orchestration.deployment import Deployment
from orchestration.running import Tell
from resources.checksums import SparkChecksums
from resources.pages import SparkPages

FLUSH_SECONDS = 600.0
READABLE = ("Live", "Repairing")

Check = Callable[[], None]


def verify_table(
    deployment: Deployment,
    pipeline: str,
    table: str,
    *,
    within: KeyRange = ALL,
    owner: str,
    tell: Tell,
    check: Check = lambda: None,
) -> VerifyReport:
    """Compare a table with its source; somebody runs the stream meanwhile."""
    with _executor(deployment, pipeline, table, owner=owner, tell=tell, check=check) as executor:
        return executor.verify(within)


def repair_table(
    deployment: Deployment,
    pipeline: str,
    table: str,
    *,
    within: KeyRange = ALL,
    owner: str,
    tell: Tell,
    check: Check = lambda: None,
) -> VerifyReport:
    """Compare a table with its source and write what differs; the stream takes it in."""
    with _executor(deployment, pipeline, table, owner=owner, tell=tell, check=check) as executor:
        return executor.repair(within)


def renew(deployment: Deployment, pipeline: str, *, owner: str, tell: Tell) -> bool:
    """Make a new slot for each source whose changes are lost; say whether there was one.

    Where somebody runs the stream nothing is lost.
    """
    applied = deployment.applied(pipeline)
    store, found = deployment.store, False
    wait_s = 2 * deployment.settings.lease_seconds
    try:
        with running.lease(deployment, main_graph(pipeline), owner=owner, wait_s=wait_s) as keeper:
            for source_plan in applied.sources.values():
                source = deployment.source(source_plan)
                try:
                    committed_position(store, source, source_plan)
                except SourceBroken as broken:
                    found = True
                    renew_source(
                        store,
                        source,
                        source_plan,
                        [t for t, _ in applied.tables if t.source == source_plan.name],
                        term=keeper.term,
                        why=broken.why,
                        failpoint=deployment.failpoint,
                        tell=tell,
                    )
    except LeaseHeld:
        tell(f"{pipeline} is running: its slots are there")
    return found


def repair_pipeline(
    deployment: Deployment, pipeline: str, *, owner: str, tell: Tell, check: Check = lambda: None
) -> list[VerifyReport]:
    """Compare and repair every table that was live; the stream is run by somebody."""
    relations = relations_of(deployment.store, pipeline)
    names = [r.name for r in relations if r.kind == "table" and r.state in READABLE]
    reports = []
    for name in names:
        try:
            reports.append(
                repair_table(deployment, pipeline, name, owner=owner, tell=tell, check=check)
            )
        except NotComparable as refused:
            # The others are not kept waiting; this one says what it lacks to whoever reads it.
            tell(str(refused))
    return reports


@contextmanager
def _executor(
    deployment: Deployment, pipeline: str, table: str, *, owner: str, tell: Tell, check: Check
) -> Iterator[VerifyExecutor]:
    applied = deployment.applied(pipeline)
    relation = applied.current(table)
    table_plan = applied.plans[relation.id]
    if not isinstance(table_plan, TablePlan):
        raise UnknownRelation(table, [t.name for t, _ in applied.tables])
    if relation.state not in READABLE:
        why = f": {relation.why}" if relation.why else ""
        raise NotComparable(table, f"is {relation.state}{why}; only a live table is whole")
    if table_plan.snapshot_filter is not None or not table_plan.snapshot:
        raise NotComparable(table, "was filled in part, so the lake may lack rows by right")
    graph = verify_graph(pipeline, table)
    deployment.failpoint("repair.before_graph")
    deployment.store.execute("ensure_graph", graph=graph, pipeline=pipeline, kind="maintenance")
    deployment.failpoint("repair.after_graph")
    with running.lease(deployment, graph, owner=owner) as keeper:
        source = deployment.source(applied.sources[table_plan.source])
        external = (table_plan.external_schema, table_plan.external_table)
        key = source.key_columns(*external, relation.schema.key)
        yield VerifyExecutor(
            relation,
            main_graph(pipeline),
            deployment.store,
            source,
            SparkChecksums(
                deployment.spark(),
                source,
                *external,
                key,
                postgres_hash(relation.schema.columns),
                max(table_plan.parallelism, 1),
            ),
            SparkPages(
                deployment.spark(),
                source,
                deployment.lake,
                *external,
                [(c.name, str(c.type)) for c in relation.schema.columns],
                key,
                relation.schema.key[0],
            ),
            StateTable(deployment.spark(), deployment.lake, relation),
            keeper,
            lambda: running.flush(deployment, pipeline, timeout_s=FLUSH_SECONDS, check=check),
            check,
            deployment.failpoint,
            tell,
            table_plan.page_rows,
            max(table_plan.parallelism, 1),
            all(column.is_ordered_alike for column in key),
        )


class NotComparable(ConfigError):
    def __init__(self, table: str, why: str) -> None:
        super().__init__(f"{table} cannot be compared with its source: it {why}")
