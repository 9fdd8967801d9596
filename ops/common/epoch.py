"""Epochs: the clock of the platform.

An epoch is `(ms since 2021-04-01T00:00Z) << 16`. A barrier with the pair (curr, prev) closes
`prev` and opens `curr`; consecutive barriers of a graph chain: `next.prev == this.curr`.

Pure.
"""

from datetime import UTC, datetime
from typing import NamedTuple, NewType

Epoch = NewType("Epoch", int)

ZERO = Epoch(0)
ORIGIN_MS = 1_617_235_200_000
SHIFT = 16


def epoch_at(unix_ms: int) -> Epoch:
    return Epoch((unix_ms - ORIGIN_MS) << SHIFT)


def unix_ms(epoch: Epoch) -> int:
    return (epoch >> SHIFT) + ORIGIN_MS


def next_epoch(prev: Epoch, now_ms: int) -> Epoch:
    """Return the epoch of now, or 1 ms after `prev` when the clock stands or steps back."""
    return max(epoch_at(now_ms), Epoch(((prev >> SHIFT) + 1) << SHIFT))


def show(epoch: Epoch) -> str:
    return datetime.fromtimestamp(unix_ms(epoch) / 1000, UTC).isoformat(timespec="milliseconds")


class EpochPair(NamedTuple):
    """`prev` is closed by the barrier, `curr` is opened by it."""

    curr: Epoch
    prev: Epoch
