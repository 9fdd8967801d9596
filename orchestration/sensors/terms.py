"""Runs whose term is over: Dagster believes they go on, the control store knows better.

A run writes the graph and the term of its lease on itself. Its term is over when the lease has run
out (its process or its host is gone), or when somebody else has taken the graph. The second also
happens to a healthy run in its last moments, so that it is given some time to end by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from ops.common.ports import Store
from orchestration.keys import GRAPH_TAG, STREAM_TAG, TERM_TAG, run_of_owner, run_owner
from orchestration.sensors.memory import Memory

GRACE_SECONDS = 20.0
START_SECONDS = 600.0
IN_PROGRESS = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)
_WORKING = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


@dataclass(frozen=True, slots=True)
class DeadRun:
    run: dg.DagsterRun
    why: str


def find_dead_runs(
    store: Store, records: Sequence[dg.RunRecord], memory: Memory, now: float
) -> list[DeadRun]:
    """Return the runs in progress whose term is over; a lease that ran out is ended for good."""
    over: dict[str, float] = {}
    dead = []
    for record in records:
        run = record.dagster_run
        if run.status not in _WORKING:
            continue
        why = _why_over(store, record, now)
        if why is None:
            continue
        since = memory.over_since.get(run.run_id, now)
        at_once = why.startswith("its lease")
        if at_once or now - since >= GRACE_SECONDS:
            dead.append(DeadRun(run, why))
        else:
            over[run.run_id] = since
    memory.over_since = over
    return dead


def _why_over(store: Store, record: dg.RunRecord, now: float) -> str | None:
    run = record.dagster_run
    graph, term = run.tags.get(GRAPH_TAG), run.tags.get(TERM_TAG)
    if graph is None or term is None:
        never = STREAM_TAG in run.tags and now - (record.start_time or now) > START_SECONDS
        return f"it took no lease within {START_SECONDS:.0f} s" if never else None
    rows = store.query("select_graph", graph=graph)
    if not rows:
        return f"its graph {graph} is gone"
    found = rows[0]
    if found["term"] != int(term):
        return f"term {term} of {graph} is over, the present one is {found['term']}"
    if found["owner"] != run_owner(run.run_id):
        return f"it has given {graph} back"
    # The store's clock decides; once this succeeds, a sleeper that wakes up cannot commit.
    if store.execute("end_term", graph=graph, term=int(term), owner_ended=False):
        return f"its lease of {graph} has run out: its process is gone, or cannot reach the store"
    return None


def release_ended(store: Store, instance: dg.DagsterInstance, graph: str) -> str | None:
    """End the lease of a run that has ended; return who holds the graph after that, if anybody."""
    found = store.query("select_graph", graph=graph)[0]
    if not found["owner"] or not found["seconds_left"]:
        return None
    owner: str = found["owner"]
    run_id = run_of_owner(owner)
    run = instance.get_run_by_id(run_id) if run_id else None
    if run is not None and run.is_finished:
        store.execute("end_term", graph=graph, term=found["term"], owner_ended=True)
        return None
    return owner
