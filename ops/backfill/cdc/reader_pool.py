"""The threads that read splits: as many as are wanted now, which may change between two pages.

    a thread     takes a split, reads its pages; one too many puts its split back where it stands,
                 between two pages, and ends
    adjust()     starts threads up to what is wanted, as long as there are splits for them

Pages of a split come out in the order in which they were read, whoever read them.

Pure.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ops.backfill.cdc.state_v2 import Page, SplitState

Results = queue.SimpleQueue[Page | BaseException]


class ReaderPool:
    def __init__(
        self,
        name: str,
        splits: Iterable[SplitState],
        read: Callable[[SplitState], Iterator[Page]],
        *,
        wanted: Callable[[], int],
    ) -> None:
        self.results: Results = queue.SimpleQueue()
        self._name, self._read, self._wanted = name, read, wanted
        self._lock = threading.Lock()
        self._splits = deque(splits)
        self._threads: list[threading.Thread] = []
        self._active = 0
        self._started = 0

    @property
    def active(self) -> int:
        with self._lock:
            return self._active

    def adjust(self) -> None:
        """Start what is missing; who is too many ends by itself."""
        wanted = self._wanted()
        with self._lock:
            missing = min(wanted - self._active, len(self._splits))
            self._threads = [t for t in self._threads if t.is_alive()]
            for _ in range(missing):
                self._started += 1
                name = f"{self._name} reader {self._started}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                self._active += 1
                thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            while (split := self._take()) is not None:
                state = split
                for page in self._read(split):
                    self.results.put(page)
                    state = state.after(page, None)
                    if not page.finished and self._ends(state):
                        return
        except BaseException as error:
            self.results.put(error)
            self._leave()

    def _take(self) -> SplitState | None:
        with self._lock:
            if not self._splits or self._active > self._wanted():
                self._active -= 1
                return None
            return self._splits.popleft()

    def _ends(self, state: SplitState) -> bool:
        """Say whether this thread is one too many; its split is then the next one's."""
        with self._lock:
            if self._active <= self._wanted():
                return False
            self._active -= 1
            self._splits.appendleft(state)
            return True

    def _leave(self) -> None:
        with self._lock:
            self._active -= 1
