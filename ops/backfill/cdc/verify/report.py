"""What a comparison found, for people: how many rows and ranges, which keys, and how they differ.

    missing     the source has the row, the lake has not
    extra       the lake has the row, the source has not
    different   both have it, and these columns differ

Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ops.backfill.cdc.verify.ranges import Key, KeyRange
from ops.common.epoch import Epoch

LISTED = 1000


class Fault(StrEnum):
    MISSING = "missing"
    EXTRA = "extra"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class WrongKey:
    key: Key
    fault: Fault
    columns: tuple[str, ...] = ()


@dataclass
class VerifyReport:
    """`rows` is how many the source had; `keys` are the first LISTED of `wrong`."""

    relation: str
    ranges: int = 0
    read_ranges: int = 0
    """Ranges whose checksums differed, or that were written meanwhile: compared row by row."""
    rows: int = 0
    wrong: int = 0
    wrong_ranges: dict[KeyRange, int] = field(default_factory=dict)
    keys: list[WrongKey] = field(default_factory=list)
    epoch: Epoch | None = None
    """The newest settled point of a range that was read; None where checksums were enough."""
    repaired: int = 0
    """Rows that were written; what an event had come for meanwhile is not among them."""

    @property
    def equal(self) -> bool:
        return self.wrong == 0


def wrong_key(key: Key, new: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> WrongKey:
    """Return how a row differs; `new` is the source's, `old` the lake's, and they are not equal."""
    if old is None:
        return WrongKey(key, Fault.MISSING)
    if new is None:
        return WrongKey(key, Fault.EXTRA)
    # A NaN is equal to itself here, as it is in Spark.
    names = tuple(n for n in new if new[n] != old[n] and not _both_nan(new[n], old[n]))
    return WrongKey(key, Fault.DIFFERENT, names)


def _both_nan(one: Any, other: Any) -> bool:
    return bool(one != one and other != other)


def wrong_keys(rows: Iterable[Mapping[str, Any]]) -> list[WrongKey]:
    return [wrong_key(tuple(row["key"].values()), row["new"], row["old"]) for row in rows]
