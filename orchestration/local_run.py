"""A whole pipeline in this process, without a daemon: for cron, CI, the demo and tests.

stream thread     the main graph
filler threads    one per table or view that is not live or in step yet, again after a failure
maintenance       folds and collects, off the tick path
granting          barriers are granted to ourselves for as long as we live
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType

from ops.backfill.progress import PipelineProgress, RelationProgress, pipeline_progress
from ops.common.errors import is_transient
from orchestration import backfilling, running
from orchestration.deployment import Deployment
from orchestration.maintenance import maintain_until
from orchestration.verifying import repair_table

GRANT_SECONDS = 15.0
RETRY_SECONDS = 1.0

Say = Callable[[str], None]


class LocalRun:
    """A context: entered it runs, left it has come to rest at a checkpoint."""

    def __init__(self, deployment: Deployment, pipeline: str, *, tell: Say) -> None:
        self._deployment, self._pipeline, self._tell = deployment, pipeline, tell
        self._leaving = threading.Event()
        self._stream_ends = threading.Event()
        self._error: BaseException | None = None
        self._progress: PipelineProgress | None = None
        self._fillers: dict[str, threading.Thread] = {}
        self._threads = [
            threading.Thread(target=self._guarded(body), name=f"{pipeline} {name}", daemon=True)
            for name, body in (
                ("stream", self._stream),
                ("fillers", self._fill),
                ("maintenance", self._maintain),
            )
        ]

    def __enter__(self) -> "LocalRun":
        deployment = self._deployment
        running.ensure_known(deployment, self._pipeline, tell=self._tell)
        self._grant()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leaving.set()
        stream, *others = self._threads
        for thread in (*others, *self._fillers.values()):
            thread.join()
        self._stream_ends.set()
        stream.join()
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise what ended one of the threads."""
        if self._error is not None:
            raise self._error

    def progress(self) -> PipelineProgress:
        """Return where it is; while the store is away, where it was."""
        try:
            self._progress = pipeline_progress(self._deployment.store, self._pipeline)
        except Exception as error:
            if not is_transient(error) or self._progress is None:
                raise
        return self._progress

    def wait_settled(self, *, on_progress: Callable[[PipelineProgress], None]) -> PipelineProgress:
        """Return once every table is live (or stopped) and every view in step."""
        while True:
            self.check()
            found = self.progress()
            on_progress(found)
            if found.settled:
                return found
            time.sleep(0.2)

    def _stream(self) -> None:
        running.stream(
            self._deployment,
            self._pipeline,
            owner=self._deployment.owner,
            until=self._stream_ends.is_set,
            tell=self._tell,
            wait_s=self._deployment.settings.lease_seconds * 2,
        )

    def _fill(self) -> None:
        while not self._leaving.wait(0.2):
            try:
                self._grant()
                self._start_fillers()
            except Exception as error:
                if not is_transient(error):
                    raise
                self._tell(f"{error}; trying again")
                time.sleep(RETRY_SECONDS)

    def _start_fillers(self) -> None:
        found = pipeline_progress(self._deployment.store, self._pipeline)
        building = {relation.name for relation in found.builds}
        # What is being replaced is not filled any further.
        old = [relation for relation in found.relations if relation.name not in building]
        for relation in (*old, *found.builds):
            filler = self._fillers.get(relation.label)
            if needs_filling(relation) and (filler is None or not filler.is_alive()):
                self._fillers[relation.label] = self._start_filler(relation)

    def _start_filler(self, relation: RelationProgress) -> threading.Thread:
        is_table = relation.kind == "table"
        backfill = backfilling.backfill_table if is_table else backfilling.backfill_view

        def fill() -> None:
            if relation.state == "Repairing":
                # Somebody has begun it and has gone.
                self._repair(relation.name)
                return
            done = backfill(
                self._deployment,
                self._pipeline,
                relation.name,
                None,
                owner=self._deployment.owner,
                tell=self._tell,
                wait_s=self._deployment.settings.lease_seconds * 2,
                leaving=self._leaving.is_set,
            )
            for _ in done:
                pass

        thread = threading.Thread(
            target=self._guarded(fill, again=True), name=f"fill {relation.label}", daemon=True
        )
        thread.start()
        return thread

    def _repair(self, table: str) -> None:
        repair_table(
            self._deployment,
            self._pipeline,
            table,
            owner=self._deployment.owner,
            tell=self._tell,
            check=self.check,
        )

    def _maintain(self) -> None:
        maintain_until(
            self._deployment,
            self._pipeline,
            owner=self._deployment.owner,
            leaving=self._leaving,
            tell=self._tell,
        )

    def _grant(self) -> None:
        self._deployment.store.execute(
            "grant_barriers", pipeline=self._pipeline, seconds=GRANT_SECONDS
        )

    def _guarded(self, body: Callable[[], None], *, again: bool = False) -> Callable[[], None]:
        def run() -> None:
            try:
                body()
            except backfilling.BuildStopped as error:
                # The current version goes on, and so does everything else.
                self._tell(str(error))
            except BaseException as error:
                if again and is_transient(error) and not self._leaving.is_set():
                    self._tell(f"{error}; trying again")
                    time.sleep(RETRY_SECONDS)
                    return
                self._error = self._error or error
                self._leaving.set()
                self._stream_ends.set()

        return run


def needs_filling(relation: RelationProgress) -> bool:
    if relation.kind == "table":
        return relation.state in ("Waiting", "Backfilling", "Repairing")
    return relation.state in ("WaitingForUpstream", "ConsumingSnapshot", "ConsumingLogStore")
