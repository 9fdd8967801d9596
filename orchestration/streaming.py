"""A stream run under Dagster: the main graph with maintenance beside it, until it should end.

idle        nothing was committed for `linger_seconds` and nobody fills anything
handed over after six hours, to a fresh run
orphaned    the process that launched it is gone
"""

import os
import threading
import time
from collections.abc import Callable

from ops.common.epoch import Epoch
from ops.common.table.relation import relations_of
from ops.planner.apply import main_graph
from orchestration import running
from orchestration.deployment import Deployment
from orchestration.maintenance import maintain_until

HANDOVER_SECONDS = 6 * 3600.0
LOOK_SECONDS = 1.0
SETTLED_SECONDS = 5.0
REPORT_SECONDS = 60.0

Report = Callable[[frozenset[str], Epoch], None]
"""Told which tables and views went live or in step, and once a minute which have changed."""


def stream_run(
    deployment: Deployment, pipeline: str, *, owner: str, tell: running.Tell, report: Report
) -> None:
    """Take barriers until the run should end; it ends at a checkpoint."""
    lease_s = deployment.settings.lease_seconds
    with _Maintenance(deployment, pipeline, owner=owner, tell=tell) as maintenance:
        ending = _Ending(deployment, pipeline, maintenance, tell, report)
        running.stream(
            deployment,
            pipeline,
            owner=owner,
            until=ending.is_due,
            tell=tell,
            wait_s=2 * lease_s,
        )


class _Maintenance:
    """A thread beside the stream; its failure is the run's."""

    def __init__(
        self, deployment: Deployment, pipeline: str, *, owner: str, tell: running.Tell
    ) -> None:
        self._leaving = threading.Event()
        self._error: BaseException | None = None

        def maintain() -> None:
            try:
                maintain_until(deployment, pipeline, owner=owner, leaving=self._leaving, tell=tell)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(
            target=maintain, name=f"{pipeline} maintenance", daemon=True
        )

    def __enter__(self) -> "_Maintenance":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._thread.join()

    def check(self) -> None:
        if self._error is not None:
            raise self._error


class _Ending:
    """Asked many times a second; looks once a second."""

    def __init__(
        self,
        deployment: Deployment,
        pipeline: str,
        maintenance: _Maintenance,
        tell: running.Tell,
        report: Report,
    ) -> None:
        self._deployment, self._pipeline = deployment, pipeline
        self._maintenance, self._tell, self._report = maintenance, tell, report
        self._started = self._reported_at = self._settled_at = time.monotonic()
        self._look_at = self._started + LOOK_SECONDS
        self._parent = os.getppid()
        self._reported = self._committed()
        self._settled = self._now_settled()
        self._due = False

    def is_due(self) -> bool:
        now = time.monotonic()
        if self._due or now < self._look_at:
            return self._due
        self._look_at = now + LOOK_SECONDS
        self._maintenance.check()
        if now - self._settled_at >= SETTLED_SECONDS:
            self._settled_at = now
            self._report_settled()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._report_changes()
        why = self._why(now)
        if why is not None:
            self._tell(f"the stream run ends: {why}")
            self._due = True
        return self._due

    def _why(self, now: float) -> str | None:
        if now - self._started >= HANDOVER_SECONDS:
            return "it hands over to a fresh run"
        if os.getppid() != self._parent:
            return "the process that launched it is gone"
        linger = self._deployment.settings.linger_seconds
        if linger != float("inf") and now - self._started >= linger and self._is_idle(linger):
            return f"nothing happened for {linger:g} s"
        return None

    def _is_idle(self, linger: float) -> bool:
        found = self._deployment.store.query("select_activity", pipeline=self._pipeline)[0]
        since = found["seconds_since_change"]
        return not found["is_filling"] and (since is None or since >= linger)

    def _report_settled(self) -> None:
        before, self._settled = self._settled, self._now_settled()
        if new := self._settled - before:
            self._report(new, self._committed())

    def _now_settled(self) -> frozenset[str]:
        store = self._deployment.store
        ids = {r["id"] for r in store.query("select_live_relations", pipeline=self._pipeline)}
        if not ids:
            return frozenset()
        return frozenset(r.name for r in relations_of(store, self._pipeline) if r.id in ids)

    def _report_changes(self) -> None:
        upto = self._committed()
        rows = self._deployment.store.query(
            "select_changed_relations", pipeline=self._pipeline, after=self._reported
        )
        self._reported = upto
        changed = frozenset(row["name"] for row in rows)
        if changed:
            self._report(changed, upto)

    def _committed(self) -> Epoch:
        graph = main_graph(self._pipeline)
        rows = self._deployment.store.query("select_graph", graph=graph)
        return Epoch(rows[0]["committed"]) if rows else Epoch(0)
