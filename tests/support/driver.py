"""A process that runs a pipeline as a user would, and may be killed or stopped on the way.

    start(job) -> Child       in the test; the child is forked from a server that has imported all

    <owner>.settled           written by the child once every table and view is live
    <owner>.go                written by the test when the source has come to rest
    <owner>.epoch             written by the child: the epoch of its last flush
    <owner>.out               all it printed
    failpoint                 written on arrival at the armed failpoint: its name

Spark and Postgres are the shared servers, so the child is nothing but the driver.
"""

import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyspark.sql.connect.session  # noqa: F401  (before the fork, or each child pays for it)

from ops.backfill.failpoints import kill_at, no_failpoint
from ops.backfill.progress import PipelineProgress, pipeline_progress
from ops.common.epoch import Epoch
from ops.common.errors import Fenced
from ops.common.ports import Failpoint
from ops.common.table.pins import pinned
from ops.common.table.relation import find_relation, relations_of
from ops.planner.apply import main_graph
from orchestration import backfilling, lifecycle, maintenance, running, verifying
from orchestration.deployment import Deployment, open_deployment
from resources.settings import Settings
from tests.support.pipeline import PIPELINE, VNODES

NOTE = "failpoint"
FENCED, NEVER_DIED = 4, 5
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Job:
    """What a child does. The steps come in this order; those that are left out are skipped."""

    settings: Settings
    owner: str
    steps: tuple[str, ...] = ("stream", "table", "view", "settle", "rest", "collect")
    tables: tuple[str, ...] = ("orders",)
    views: tuple[str, ...] = ("revenue",)
    failpoint: str | None = None
    once_settled: bool = False
    """Arm the failpoint only when all is live, or for the second fold: the first passings are let
    through."""
    stop_there: bool = False
    """SIGSTOP instead of SIGKILL: the process becomes a zombie that may be woken."""
    max_log_files: int = 16
    wait_s: float = 30.0
    """How long to wait for a lease that somebody else holds."""


class Child:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.process: BaseProcess = _context.Process(target=main, args=(job,), name=job.owner)
        self.process.start()

    @property
    def output(self) -> str:
        path = self.file("out")
        return path.read_text() if path.exists() else ""

    def file(self, kind: str) -> Path:
        return self.job.settings.home / f"{self.job.owner}.{kind}"

    def wait(self, seconds: float = 400) -> int:
        """Return the exit code, negative for a signal; kill it and fail when it takes too long."""
        self.process.join(seconds)
        code = self.process.exitcode
        if code is None:
            self.kill()
            raise AssertionError(f"{self.job.owner} goes on for {seconds} s\n{self.output}")
        return code

    def await_file(self, path: Path, seconds: float = 400) -> None:
        """Return once the child has written `path`; fail if it ends without."""
        deadline = time.monotonic() + seconds
        while not path.exists():
            ended = self.process.exitcode is not None
            assert path.exists() or not ended, f"{self.job.owner} ended\n{self.output}"
            if time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"no {path.name} within {seconds} s\n{self.output}")
            time.sleep(0.02)

    def finish(self) -> int:
        """Let a child that waits for it come to rest; return the epoch that holds everything."""
        self.await_file(self.file("settled"))
        self.file("go").touch()
        code = self.wait()
        assert code == 0, f"{self.job.owner} ended with {code}\n{self.output}"
        return int(self.file("epoch").read_text())

    def signal(self, number: int) -> None:
        pid = self.process.pid
        assert pid is not None
        os.kill(pid, number)

    def state(self) -> str:
        """Return the process's state as the system has it; T is stopped."""
        text = Path(f"/proc/{self.process.pid}/stat").read_text()
        return text.rpartition(")")[2].split()[0]

    def kill(self) -> None:
        if self.process.exitcode is None:
            self.process.kill()
        self.process.join()


def start(job: Job) -> Child:
    return Child(job)


def main(job: Job) -> None:
    home = job.settings.home
    out = os.open(home / f"{job.owner}.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    code = 0
    try:
        with open_deployment(job.settings) as deployment:
            Driver(job, deployment).run()
        if job.failpoint is not None:
            print(f"never came to {job.failpoint}")
            code = NEVER_DIED
    except Fenced as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}")
        code = FENCED
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    # Whatever threads are left would only delay the end.
    os._exit(code)


class Driver:
    def __init__(self, job: Job, deployment: Deployment) -> None:
        self.job, self.deployment = job, deployment
        self.armed = threading.Event()
        if not job.once_settled:
            self.armed.set()
        deployment.failpoint = self._failpoint()
        deployment.max_log_files = job.max_log_files
        self.over = threading.Event()
        self.failure: BaseException | None = None
        self.started = time.monotonic()

    def run(self) -> None:
        steps: dict[str, Callable[[], None]] = {
            "renew": self._renew,
            "anew": self._begin_anew,
            "change": self._change,
            "stream": self._stream,
            "table": self._tables,
            "view": self._views,
            "repair": self._repair,
            "settle": self._settle,
            "take_down": self._take_down,
            "flush": self._flush,
            "spoil": self._spoil,
            "read": self._read,
            "merge": self._await_merge,
            "fold": self._fold,
            "fold_again": self._fold_again,
            "vacuum": self._vacuum,
            "rest": self._rest,
            "collect": self._collect,
        }
        assert set(self.job.steps) <= steps.keys(), self.job.steps
        running.ensure_applied(self.deployment, self.deployment.pipeline(PIPELINE))
        self.deployment.store.execute("grant_barriers", pipeline=PIPELINE, seconds=1000)
        for name, step in steps.items():
            if name in self.job.steps:
                self._say(name)
                step()
        self._end_stream()
        self._say("done")

    def _failpoint(self) -> Failpoint:
        job = self.job
        if job.failpoint is None:
            return no_failpoint
        note = job.settings.home / NOTE
        hit = _stop_at(job.failpoint, note) if job.stop_there else kill_at(job.failpoint, note)

        def failpoint(name: str) -> None:
            (hit if self.armed.is_set() else no_failpoint)(name)

        return failpoint

    def _change(self) -> None:
        lifecycle.apply(self.deployment, self.deployment.pipeline(PIPELINE))

    def _begin_anew(self) -> None:
        owner = self.job.owner
        self._say(lifecycle.begin_source_anew(self.deployment, PIPELINE, "shop", owner=owner))

    def _take_down(self) -> None:
        def is_down() -> bool:
            self._say(maintenance.take_down(self.deployment, PIPELINE))
            found = self.deployment.store.query("select_has_ended", pipeline=PIPELINE)
            return not found[0]["has_ended"]

        self._await(is_down)
        self._say(maintenance.collect(self.deployment, PIPELINE, unlisted_s=0))

    def _stream(self) -> None:
        def run() -> None:
            try:
                running.stream(
                    self.deployment,
                    PIPELINE,
                    owner=self.job.owner,
                    until=self.over.is_set,
                    tell=self._say,
                    wait_s=self.job.wait_s,
                )
            except BaseException as error:
                self.failure = error

        self.thread = threading.Thread(target=run, name="stream", daemon=True)
        self.thread.start()
        self.deployment.spark()

    def _renew(self) -> None:
        verifying.renew(self.deployment, PIPELINE, owner=self.job.owner, tell=self._say)

    def _repair(self) -> None:
        for report in verifying.repair_pipeline(
            self.deployment, PIPELINE, owner=self.job.owner, tell=self._say, check=self._check
        ):
            self._say(report)

    def _tables(self) -> None:
        for table in self.job.tables:
            for _ in backfilling.backfill_table(
                self.deployment,
                PIPELINE,
                table,
                range(VNODES),
                owner=self.job.owner,
                tell=self._say,
                wait_s=self.job.wait_s,
            ):
                self._check()

    def _views(self) -> None:
        for view in self.job.views:
            self._await(partial(self._has_to_follow, view))
            for _ in backfilling.backfill_view(
                self.deployment,
                PIPELINE,
                view,
                range(VNODES),
                owner=self.job.owner,
                tell=self._say,
                wait_s=self.job.wait_s,
            ):
                self._check()

    def _settle(self) -> None:
        self._await(lambda: self._progress().settled)
        self._say([(r.name, r.state, r.why) for r in self._progress().relations])
        self._file("settled").touch()
        if "fold_again" not in self.job.steps:
            self.armed.set()

    def _await_merge(self) -> None:
        self._await(lambda: bool(self._unlisted()))

    def _has_to_follow(self, view: str) -> bool:
        """A view that comes back to its log finds something there: the writer goes on."""
        relation = find_relation(relations_of(self.deployment.store, PIPELINE), view)
        if relation.state != "ConsumingLogStore" or "stream" not in self.job.steps:
            return True
        committed = partial(running.committed_epoch, self.deployment)
        return committed(main_graph(PIPELINE)) > committed(relation.graph)

    def _flush(self) -> None:
        running.flush(self.deployment, PIPELINE, check=self._check)

    def _read(self) -> None:
        """Hold everything at one epoch for longer than one renewal takes."""
        store = self.deployment.store
        relations = relations_of(store, PIPELINE)
        with pinned(
            store,
            relations,
            main_graph=main_graph(PIPELINE),
            seconds=1.0,
            failpoint=self.deployment.failpoint,
        ):
            time.sleep(0.6)

    def _spoil(self) -> None:
        """From now on no file of this process grows beyond a few KB: the log cannot be written."""
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        self._await(lambda: False)

    def _fold(self) -> None:
        """Fold something; whoever was killed in a fold still has the lease for a while."""
        folded: dict[str, Epoch] = {}

        def fold() -> bool:
            folded.update(maintenance.fold(self.deployment, PIPELINE, owner=self.job.owner))
            return bool(folded)

        self._await(fold)
        self._say(folded)

    def _fold_again(self) -> None:
        running.flush(self.deployment, PIPELINE)
        self.armed.set()
        self._fold()

    def _vacuum(self) -> None:
        # With its commit the main graph lets go of what it saw before the fold.
        running.flush(self.deployment, PIPELINE)
        self._say(maintenance.vacuum(self.deployment, PIPELINE, unlisted_s=0))

    def _rest(self) -> None:
        self._await(self._file("go").exists, seconds=300)
        self._file("epoch").write_text(str(running.flush(self.deployment, PIPELINE)))
        self._check()

    def _collect(self) -> None:
        # Nobody reads any more: there is no need for a grace. What the first round has emptied is
        # forgotten by the second.
        self._end_stream()
        for _ in range(2):
            self._say(maintenance.collect(self.deployment, PIPELINE, unlisted_s=0))

    def _end_stream(self) -> None:
        self.over.set()
        if "stream" in self.job.steps:
            self.thread.join()
        self._check()

    def _await(self, condition: Callable[[], bool], seconds: float = 150) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            self._check()
            if time.monotonic() > deadline:
                faulthandler.dump_traceback()
                raise AssertionError(f"it did not happen within {seconds} s: {self._progress()}")
            time.sleep(0.1)

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _progress(self) -> PipelineProgress:
        return pipeline_progress(self.deployment.store, PIPELINE)

    def _unlisted(self) -> list[dict[str, object]]:
        return self.deployment.store.query(
            "select_removable_files", pipeline=PIPELINE, grace_seconds=0
        )

    def _file(self, kind: str) -> Path:
        return self.job.settings.home / f"{self.job.owner}.{kind}"

    def _say(self, what: object) -> None:
        print(f"{time.monotonic() - self.started:6.2f} {what}")


def _stop_at(armed: str, note: Path) -> Failpoint:
    stopped = threading.Event()

    def failpoint(name: str) -> None:
        no_failpoint(name)
        if name == armed and not stopped.is_set():
            stopped.set()
            note.write_text(name)
            os.kill(os.getpid(), signal.SIGSTOP)

    return failpoint


def restarted(job: Job, owner: str) -> Job:
    """Return the same job for a process that comes after, with nothing armed."""
    return replace(job, owner=owner, failpoint=None, once_settled=False, stop_there=False)
