"""The key ranges a table is compared by: cut where the lake's own keys say, to spare the source.

    sample of keys   k k k k k k k k k k k
    ranges           (-∞, k4) [k4, k8) [k8, +∞)     each of about as many rows

The outer ranges are open, and each key belongs to exactly one, whatever rows the source has. A
place in the list of ranges is found by the cuts alone, in the order the source and Spark share.

Pure.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ops.common.errors import ConfigError
from ops.common.schema import INTEGERS, Column

Key = tuple[Any, ...]
TextKey = tuple[str, ...]
"""As the source writes and reads it."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Keys from `lower` (inclusive) to `upper` (exclusive); None is unbounded."""

    lower: Key | None = None
    upper: Key | None = None

    def __contains__(self, key: Key) -> bool:
        return (self.lower is None or self.lower <= key) and (
            self.upper is None or key < self.upper
        )

    def __str__(self) -> str:
        lower, upper = _shown(self.lower), _shown(self.upper)
        return f"[{lower or '-∞'}, {upper or '+∞'})"


ALL = KeyRange()


class BadRange(ConfigError):
    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"{text!r} is no range of keys: {why}; write a..b, a.. or ..b")


def parse_range(text: str, key: Sequence[Column]) -> KeyRange:
    """Read what stands after `--range`: whole numbers, both included."""
    if len(key) != 1 or key[0].type.kind not in INTEGERS:
        raise BadRange(text, "only a table with one integer key can be asked for in parts")
    low, dots, high = text.partition("..")
    try:
        lower = (int(low),) if low else None
        upper = (int(high) + 1,) if high else None
    except ValueError:
        raise BadRange(text, "its ends are not whole numbers") from None
    if not dots or (lower is not None and upper is not None and lower >= upper):
        raise BadRange(text, "it holds no key" if dots else "it has no ..")
    return KeyRange(lower, upper)


def as_text(key: Key | None) -> TextKey | None:
    """Return how the source is told a key that it has in the same order as Spark."""
    return None if key is None else tuple(str(part) for part in key)


def cut(within: KeyRange, sample: Sequence[Key], *, count: int) -> tuple[KeyRange, ...]:
    """Cut a range into about `count` parts of as many keys each, as a sorted sample has them."""
    inner = sorted({key for key in sample if key in within and key != within.lower})
    step = max(len(inner) / max(count, 1), 1.0)
    places = sorted({int(i * step) for i in range(1, count)})
    cuts = [inner[place] for place in places if place < len(inner)]
    lowers, uppers = [within.lower, *cuts], [*cuts, within.upper]
    return tuple(KeyRange(low, high) for low, high in zip(lowers, uppers, strict=True))


def place_of(key: Key, ranges: Sequence[KeyRange]) -> int:
    """Return the place of a key in ranges that follow one another. Twin: `compare.place_column`."""
    cuts = [r.lower for r in ranges[1:]]
    return bisect_right(cuts, key)  # type: ignore[type-var]


def waves(ranges: Sequence[KeyRange], *, size: int) -> list[tuple[KeyRange, ...]]:
    """Deal ranges that follow one another out to waves, each of which also follow one another."""
    return [tuple(ranges[i : i + size]) for i in range(0, len(ranges), size)]


def _shown(key: Key | None) -> str:
    if key is None:
        return ""
    return str(key[0]) if len(key) == 1 else f"({', '.join(map(str, key))})"
