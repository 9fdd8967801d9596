"""Ctrl-C and SIGTERM while a server is being started or stopped.

Python runs handlers in the main thread only, so elsewhere both are no-ops.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def finish_first() -> Iterator[None]:
    """Let the block finish when told to end, then end as told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []

    def remember(number: int, _: FrameType | None) -> None:
        told.append(number)

    # None: a handler set outside Python, which cannot be put back.
    before = {n: h for n in ENDINGS if (h := signal.getsignal(n)) is not None}
    for number in before:
        signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if told:
            signal.raise_signal(told[0])


@contextmanager
def end_on_terminate() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the stack, where nobody handles them yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    unhandled = [
        n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL
    ]
    for number in unhandled:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in unhandled:
            if signal.getsignal(number) is unwind:
                signal.signal(number, signal.SIG_DFL)
