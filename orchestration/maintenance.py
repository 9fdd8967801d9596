"""Folding and collecting, off the tick path, for as long as a pipeline runs.

A relation is folded when it has no base yet or its log holds something; all of a pipeline's are
folded to one epoch. Somebody else folding at the same time is as good.
"""

import threading
import time

from ops.common.errors import is_transient
from ops.common.table.relation import relations_of
from orchestration import running
from orchestration.deployment import Deployment

COLLECT_SECONDS = 60.0


def maintain_until(
    deployment: Deployment,
    pipeline: str,
    *,
    owner: str,
    leaving: threading.Event,
    tell: running.Tell,
) -> None:
    """Fold and collect until `leaving` is set; what may pass is tried again at the next turn."""
    fold_s = deployment.settings.fold_interval_seconds
    fold_at = time.monotonic() + fold_s
    collect_at = time.monotonic() + COLLECT_SECONDS
    while not leaving.wait(max(0.0, min(fold_at, collect_at) - time.monotonic())):
        try:
            if time.monotonic() >= fold_at:
                fold_at = time.monotonic() + max(fold_s, 1.0)
                _fold(deployment, pipeline, owner=owner, tell=tell)
            if time.monotonic() >= collect_at:
                collect_at = time.monotonic() + COLLECT_SECONDS
                running.collect(deployment, pipeline)
        except Exception as error:
            if not is_transient(error):
                raise
            tell(f"maintenance: {error}; trying again")


def _fold(deployment: Deployment, pipeline: str, *, owner: str, tell: running.Tell) -> None:
    if not _is_due(deployment, pipeline):
        return
    started = time.monotonic()
    folded = running.fold(deployment, pipeline, owner=owner)
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
    relations = [r for r in relations_of(store, pipeline) if r.id in settled]
    return any(not store.query("select_bases", relation=r.id) for r in relations)
