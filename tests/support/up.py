"""`tidegate up` as a child of a test: started, asked by GraphQL, killed with all it has started."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from resources.embedded.loopback import free_port
from resources.settings import Settings

LAUNCH = """mutation($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
STATS = """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) {
    ... on AssetNode { partitionStats { numMaterialized } } } }"""
RUNS = """{ runsOrError(limit: 50) { ... on Runs { results {
    runId jobName status tags { key value } } } } }"""


class Up:
    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings, self.log, self.port = settings, log, free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Return after how many seconds it said that it is up."""
        begun = time.monotonic()
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "orchestration.cli", "up", "--port", str(self.port)],
                cwd=self.settings.root,
                env=self.settings.child_environ(),
                stdout=out,
                stderr=out,
                start_new_session=True,
                # A shell that runs us in the background has it ignored, and children inherit that.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        self.wait(lambda: "Tidegate is up" in self.log.read_text(), 150)
        return time.monotonic() - begun

    def wait(self, condition: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process is not None and self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, f"not within {seconds} s\n{self.said()}"
            time.sleep(0.2)

    def said(self) -> str:
        logs = [self.log, *sorted(self.settings.logs.glob("*.log"))]
        return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in logs)

    def ask(self, query: str, **variables: Any) -> Any:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            body,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)["data"]

    def launch(self, *key: str, partitions: tuple[str, str]) -> str:
        names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
        tags = [{"key": k, "value": v} for k, v in zip(names, partitions, strict=True)]
        params = {
            "selector": {
                "repositoryName": "__repository__",
                "repositoryLocationName": "tidegate",
                "pipelineName": "__ASSET_JOB",
                "assetSelection": [{"path": list(key)}],
                "assetCheckSelection": [],
            },
            "mode": "default",
            "executionMetadata": {"tags": tags},
        }
        found = self.ask(LAUNCH, params=params)["launchPipelineExecution"]
        assert found["__typename"] == "LaunchRunSuccess", found
        return str(found["run"]["runId"])

    def materialized(self, *key: str) -> int:
        node = self.ask(STATS, key={"path": list(key)})["assetNodeOrError"]
        return int(node["partitionStats"]["numMaterialized"])

    def runs(self, job: str) -> list[tuple[str, str]]:
        """Return (id, status) of the job's runs, newest first."""
        found = self.ask(RUNS)["runsOrError"]["results"]
        return [(r["runId"], r["status"]) for r in found if r["jobName"] == job]

    def everything(self) -> set[int]:
        """Return the ids of the process and of all that descend from it."""
        assert self.process is not None
        children: dict[int, list[int]] = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                pid, parent = int(status.parent.name), _parent(status.read_text())
                children.setdefault(parent, []).append(pid)
        found, todo = set(), [self.process.pid]
        while todo:
            pid = todo.pop()
            found.add(pid)
            todo += children.get(pid, [])
        return found

    def kill_everything(self) -> int:
        """Kill -9 every process of it; return how many there were."""
        assert self.process is not None
        pids = self.everything()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(20)
        deadline = time.monotonic() + 20
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.1)
        return len(pids)

    def interrupt(self) -> int:
        """Do what Ctrl-C does; return the exit code."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGINT)
        return self.process.wait(90)

    def left(self) -> list[str]:
        """Return the command lines of living processes that name our home."""
        home, found = os.fsencode(self.settings.home), []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                line = file.read_bytes()
                if home in line:
                    found.append(line.replace(b"\0", b" ").decode()[:200])
        return found


def _parent(stat: str) -> int:
    # The name, in parentheses, may hold anything.
    return int(stat.rpartition(")")[2].split()[1])
