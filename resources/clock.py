"""What time it is, so that tests can say it instead."""

import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """The three things anybody here asks of time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970; may step back when the machine's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(slots=True)
class ManualClock:
    """A clock for tests: it moves only when slept on or stepped."""

    ms: int = 1_700_000_000_000
    elapsed: float = field(default=0.0)

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        self.ms += round(seconds * 1000)

    def step_back(self, ms: int) -> None:
        """Set the wall clock back, as an operator would; monotonic time is untouched."""
        self.ms -= ms
