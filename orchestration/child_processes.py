"""Long-running children with all their descendants: started, watched, ended together.

Each is the head of a process group of its own. It is told to end when this process does, however
that happens (on Linux), and its group is what is ended: a code server's runs are in it, too.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from resources.embedded.connect_server import LEASH

MAX_RESTARTS = 3
RESTART_WINDOW_SECONDS = 120.0
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that none gets away."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)


@dataclass
class Child:
    """A program that should always be running."""

    name: str
    command: Sequence[str]
    variables: Mapping[str, str]
    cwd: Path
    log: Path
    before_start: Callable[[], None] = lambda: None
    _process: "subprocess.Popen[bytes] | None" = None
    _starts: list[float] = field(default_factory=list)
    _asked: bool = False

    def start(self) -> None:
        self.before_start()
        self._starts.append(time.monotonic())
        self._asked = False
        leash = [sys.executable, "-I", "-S", "-c", LEASH, str(os.getpid())]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*leash, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(self.variables),
                cwd=self.cwd,
                # A group of its own; Ctrl-C in the terminal is for us, we end it in order.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def restart(self) -> bool:
        """Start it again after it ended; False if that has happened too often lately."""
        since = time.monotonic() - RESTART_WINDOW_SECONDS
        if sum(started > since for started in self._starts) > MAX_RESTARTS:
            return False
        self.end(grace_s=5)
        self.start()
        return True

    def ask(self) -> None:
        """Tell the whole group to end; once, for a second time means at once to some."""
        self._asked = True
        self._signal(signal.SIGTERM)

    def end(self, *, grace_s: float) -> None:
        """Wait until nothing of the group is left; after `grace_s` it is killed."""
        deadline = time.monotonic() + grace_s
        if not self._asked:
            self.ask()
        while self._is_there():
            if time.monotonic() > deadline:
                self._signal(signal.SIGKILL)
            time.sleep(0.05)

    def _is_there(self) -> bool:
        if self._process is None:
            return False
        self._process.poll()
        # Descendants we adopted: without this they would stay as zombies, and in the group.
        with suppress(ChildProcessError):
            while os.waitpid(-self._process.pid, os.WNOHANG) != (0, 0):
                pass
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
