"""Somebody must run a pipeline's stream for a flush to be answered or a table to go live.

With the barrier sensor on, a stream run does, and this waits for it. Where nobody grants barriers
(`dagster asset materialize` without a daemon), the run itself is the stream for as long as it
needs one.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ops.common.epoch import Epoch
from ops.common.errors import ConfigError, LeaseHeld
from ops.common.table.relation import Relation
from ops.planner.apply import main_graph
from ops.planner.plan import ViewPlan
from orchestration import running
from orchestration.deployment import Deployment

GRANT_SECONDS = 15.0
LOOK_SECONDS = 0.5
FLUSH_SECONDS = 600.0
_UNFILLED = ("Waiting", "Backfilling", "WaitingForUpstream", "ConsumingSnapshot")


class UpstreamNotFilled(ConfigError):
    def __init__(self, view: ViewPlan, upstream: Relation) -> None:
        state = upstream.state
        backfill = "cdc_backfill" if upstream.kind == "table" else "snapshot_backfill"
        super().__init__(
            f"{view.upstream}, which {view.name} reads, is {state} and nobody is filling it; "
            f"materialize all partitions of {view.pipeline}/{view.upstream}/{backfill} first"
        )


class Attendance:
    """Whether this run has to be the stream, and what became of it."""

    def __init__(self) -> None:
        self.leaving = threading.Event()
        self.error: BaseException | None = None

    def check(self) -> None:
        if self.error is not None:
            raise self.error


@contextmanager
def attended(
    deployment: Deployment, pipeline: str, *, owner: str, tell: running.Tell
) -> Iterator[Attendance]:
    """For the time of the block, be the stream whenever nobody else is."""
    running.ensure_known(deployment, pipeline, tell=tell)
    attendance = Attendance()

    def attend() -> None:
        try:
            while not attendance.leaving.wait(LOOK_SECONDS if _has_driver() else 0.0):
                if not _has_driver():
                    _stream(attendance)
        except BaseException as error:
            attendance.error = error

    def _has_driver() -> bool:
        held = deployment.store.query("select_graph", graph=main_graph(pipeline))[0]["seconds_left"]
        return bool(held) or _is_granted(deployment, pipeline)

    def _stream(attendance: Attendance) -> None:
        tell(f"nobody runs the stream of {pipeline}: this run does meanwhile")
        until = attendance.leaving.is_set
        # Somebody may be faster, which is as good.
        with _granting(deployment, pipeline), suppress(LeaseHeld):
            running.stream(deployment, pipeline, owner=owner, until=until, tell=tell)

    thread = threading.Thread(target=attend, name=f"{pipeline} stream", daemon=True)
    thread.start()
    try:
        yield attendance
    finally:
        attendance.leaving.set()
        thread.join()
    attendance.check()


@contextmanager
def _granting(deployment: Deployment, pipeline: str) -> Iterator[None]:
    """Grant barriers for the time of the block and not a second longer: others go by grants."""
    ended = threading.Event()

    def grant(seconds: float) -> None:
        deployment.store.execute("grant_barriers", pipeline=pipeline, seconds=seconds)

    def keep_granting() -> None:
        while not ended.wait(GRANT_SECONDS / 3):
            grant(GRANT_SECONDS)

    grant(GRANT_SECONDS)
    thread = threading.Thread(target=keep_granting, name=f"{pipeline} grants", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        grant(0.0)


def flush_attended(
    deployment: Deployment, pipeline: str, *, owner: str, tell: running.Tell
) -> Epoch:
    """Wait for a checkpoint of all that the sources hold now; make it, if nobody else does."""
    with attended(deployment, pipeline, owner=owner, tell=tell) as attendance:
        return running.flush(deployment, pipeline, timeout_s=FLUSH_SECONDS, check=attendance.check)


def require_upstream_filled(deployment: Deployment, view: ViewPlan, *, tell: running.Tell) -> None:
    """Refuse to wait for a table that nobody fills."""
    applied = running.ensure_known(deployment, view.pipeline, tell=tell)
    store = deployment.store
    upstream = applied.upstream(applied.to_fill(view.name))
    filling = store.query("select_graph", graph=upstream.graph)[0]["seconds_left"]
    if upstream.state in _UNFILLED and not filling:
        raise UpstreamNotFilled(view, upstream)


def _is_granted(deployment: Deployment, pipeline: str) -> bool:
    return bool(deployment.store.query("select_grant", pipeline=pipeline)[0]["granted"])
