"""Folding and collecting, off the tick path, for as long as a pipeline runs.

A relation is folded when it has no base yet or its log holds something; all of a pipeline's are
folded to one epoch. Somebody else folding at the same time is as good.
"""

import threading
import time
from contextlib import ExitStack, suppress

from ops.backfill.cdc.release import release_sources, release_tables
from ops.common.epoch import Epoch
from ops.common.errors import Fenced, LeaseHeld, TidegateError, is_transient
from ops.common.table.collect import UNLISTED_SECONDS, ZOMBIE_SECONDS, Collector
from ops.common.table.drop import Dropper
from ops.common.table.fold import Folder, fold_point
from ops.common.table.relation import Relation, listing, versions_of
from ops.common.table.vacuum import Vacuum
from ops.planner.apply import ALL, main_graph, maintenance_graph
from ops.planner.plan import SourcePlan
from orchestration.deployment import Deployment
from orchestration.running import Tell, lease
from resources.errors import ResourceError
from resources.postgres import PostgresSource
from resources.spark import new_session, release_session

COLLECT_SECONDS = 60.0
VACUUM_SECONDS = 600.0
LOOK_SECONDS = 1.0
REFUSED_SECONDS = 30.0


def maintain_until(
    deployment: Deployment,
    pipeline: str,
    *,
    owner: str,
    leaving: threading.Event,
    tell: Tell,
) -> None:
    """Fold and collect until `leaving` is set; what may pass is tried again at the next turn."""
    fold_s = deployment.settings.fold_interval_seconds
    fold_at = time.monotonic() + fold_s
    collect_at = time.monotonic() + COLLECT_SECONDS
    vacuum_at = time.monotonic() + VACUUM_SECONDS
    look_at = time.monotonic()
    while not leaving.wait(
        max(0.0, min(fold_at, collect_at, vacuum_at, look_at) - time.monotonic())
    ):
        try:
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _take_down(deployment, pipeline, tell)
            if time.monotonic() >= fold_at:
                fold_at = time.monotonic() + max(fold_s, 1.0)
                _fold(deployment, pipeline, owner=owner, tell=tell)
            if time.monotonic() >= collect_at:
                collect_at = time.monotonic() + COLLECT_SECONDS
                collect(deployment, pipeline)
            if time.monotonic() >= vacuum_at:
                vacuum_at = time.monotonic() + VACUUM_SECONDS
                vacuum(deployment, pipeline)
        except Exception as error:
            if not is_transient(error):
                raise
            tell(f"maintenance: {error}; trying again")


def _take_down(deployment: Deployment, pipeline: str, tell: Tell) -> float:
    """Take down what can be; return when to look again. What keeps it from that stops nothing."""
    try:
        if gone := take_down(deployment, pipeline):
            tell(f"taken down: {', '.join(gone)}")
    except (TidegateError, ResourceError) as error:
        tell(f"what was dropped is not taken down yet: {error}")
        return REFUSED_SECONDS
    return LOOK_SECONDS


def _fold(deployment: Deployment, pipeline: str, *, owner: str, tell: Tell) -> None:
    if not _is_due(deployment, pipeline):
        return
    started = time.monotonic()
    folded = fold(deployment, pipeline, owner=owner)
    if folded:
        names = ", ".join(sorted(folded))
        tell(
            f"folded {names} to epoch {max(folded.values())} in {time.monotonic() - started:.1f} s"
        )


def _is_due(deployment: Deployment, pipeline: str) -> bool:
    store = deployment.store
    settled = {row["id"] for row in store.query("select_live_relations", pipeline=pipeline)}
    logged = store.query("select_log_counts", pipeline=pipeline, limit=0)
    if settled & {row["relation"] for row in logged}:
        return True
    relations = [r for r in versions_of(store, pipeline) if r.id in settled]
    return any(not listing(store, r).bases for r in relations)


def fold(deployment: Deployment, pipeline: str, *, owner: str) -> dict[str, Epoch]:
    """Fold every settled table and view to one epoch, the committed one; return what moved."""
    store, folded = deployment.store, dict[str, Epoch]()
    with ExitStack() as stack:
        try:
            everything = maintenance_graph(pipeline, ALL)
            term = stack.enter_context(lease(deployment, everything, owner=owner)).term
        except LeaseHeld:
            # Somebody else is folding: that is as good.
            return folded
        epoch, relations = stack.enter_context(
            fold_point(
                store,
                pipeline,
                main_graph=main_graph(pipeline),
                term=term,
                failpoint=deployment.failpoint,
            )
        )
        session = new_session(deployment.spark())
        stack.callback(release_session, session)
        for relation in relations:
            graph = maintenance_graph(pipeline, relation.label)
            with suppress(LeaseHeld), lease(deployment, graph, owner=owner) as keeper:
                folder = Folder(
                    store,
                    deployment.lake,
                    session,
                    deployment.delta,
                    deployment.failpoint,
                    keeper.term,
                    deployment.settings.retention_seconds,
                )
                try:
                    moved = folder.fold(relation, epoch)
                except Fenced:
                    # A version that was swapped out or dropped meanwhile needs no base any more.
                    if _is_alive(deployment, pipeline, relation):
                        raise
                    continue
                if moved is not None:
                    folded[relation.label] = epoch
    return folded


def _is_alive(deployment: Deployment, pipeline: str, relation: Relation) -> bool:
    return any(r.id == relation.id for r in versions_of(deployment.store, pipeline))


def vacuum(deployment: Deployment, pipeline: str, *, unlisted_s: float = UNLISTED_SECONDS) -> int:
    """Delete what no readable version of a base names; return how many files went."""
    store = deployment.store
    vacuum = Vacuum(store, deployment.lake, deployment.delta, deployment.failpoint)
    versions = versions_of(store, pipeline)
    return sum(vacuum.vacuum(relation, grace_s=unlisted_s) for relation in versions)


def collect(
    deployment: Deployment,
    pipeline: str,
    *,
    unlisted_s: float = UNLISTED_SECONDS,
    zombie_s: float = ZOMBIE_SECONDS,
) -> int:
    """Remove orphans, and the files of what was taken down; return how many went."""
    collector = Collector(deployment.store, deployment.lake, deployment.failpoint)
    deleted = collector.collect(pipeline, unlisted_s=unlisted_s, zombie_s=zombie_s)
    dropper = Dropper(deployment.store, deployment.lake, deployment.failpoint)
    return deleted + dropper.delete(pipeline, grace_s=unlisted_s, zombie_s=zombie_s)


def take_down(deployment: Deployment, pipeline: str) -> list[str]:
    """End what was dropped or replaced, as far as nobody has it any more; return what went."""
    store, failpoint = deployment.store, deployment.failpoint
    if not deployment.store.query("select_has_ended", pipeline=pipeline)[0]["has_ended"]:
        return []
    gone = Dropper(store, deployment.lake, failpoint).forget(pipeline)

    def open_source(plan: SourcePlan) -> PostgresSource:
        return deployment.source(deployment.with_secrets(plan))

    release_tables(store, pipeline, open_source, failpoint=failpoint)
    return gone + release_sources(store, pipeline, open_source, failpoint=failpoint)
