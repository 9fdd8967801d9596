"""Where in a source's stream we are: ordered, and stored as tagged, versioned JSON.

    {"v": 1, "postgres": {"lsn": "0/16B3748", "position": 0}}

Postgres sends whole transactions in the order of their commits, while the events inside carry the
LSN at which they were written, which is no order at all. So a position is a commit and a number:

    event n of a transaction    (start of its commit record = Begin.final_lsn, n), n from 1
    after a transaction         (end of its commit record = Commit.end_lsn, 0)
    after a quiet stretch       (keep-alive position, 0)

A commit record starts before it ends, and the next one starts no earlier than that; hence an event
was delivered before if and only if it is less than the committed offset.

Pure.
"""

import json
from dataclasses import dataclass
from typing import Any

from ops.common.errors import ConsistencyError

VERSION = 1


class OffsetsNotComparable(ConsistencyError):
    def __init__(self, left: object, right: object) -> None:
        self.left, self.right = left, right
        super().__init__(
            f"{type(left).__name__} and {type(right).__name__} are positions in different kinds of "
            "stream and have no order; was the source's connector changed?"
        )


class UnreadableOffset(ConsistencyError):
    def __init__(self, text: str, why: str) -> None:
        self.text, self.why = text, why
        super().__init__(f"the stored offset {text!r} cannot be read: {why}")


@dataclass(frozen=True, slots=True)
class PostgresOffset:
    """`lsn` of a commit and the number of the event in its transaction, 0 for none."""

    lsn: int
    position: int = 0

    def __lt__(self, other: object) -> bool:
        return self._order() < self._order_of(other)

    def __le__(self, other: object) -> bool:
        return self._order() <= self._order_of(other)

    def __gt__(self, other: object) -> bool:
        return self._order() > self._order_of(other)

    def __ge__(self, other: object) -> bool:
        return self._order() >= self._order_of(other)

    def __str__(self) -> str:
        return f"{lsn_to_str(self.lsn)}#{self.position}"

    def _order(self) -> tuple[int, int]:
        return self.lsn, self.position

    def _order_of(self, other: object) -> tuple[int, int]:
        if not isinstance(other, PostgresOffset):
            raise OffsetsNotComparable(self, other)
        return other._order()


CdcOffset = PostgresOffset
"""The union of the variants; there is one so far."""


def serialize_offset(offset: CdcOffset) -> str:
    body = {"lsn": lsn_to_str(offset.lsn), "position": offset.position}
    return json.dumps({"v": VERSION, "postgres": body})


def parse_offset(text: str) -> CdcOffset:
    """Inverse of `serialize_offset`."""
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise UnreadableOffset(text, "it is no JSON") from error
    match data:
        case {"v": int(version)} if version != VERSION:
            raise UnreadableOffset(text, f"version {version} is not known to this release")
        case {"v": int(), "postgres": {"lsn": str(lsn), "position": int(position)}}:
            return PostgresOffset(lsn_to_int(lsn), position)
        case _:
            raise UnreadableOffset(text, "it names no known kind of source")


def lsn_to_int(text: str) -> int:
    """`0/16B3748` -> 23803720"""
    high, separator, low = text.partition("/")
    try:
        if not separator or len(low) > 8:
            raise ValueError
        return (int(high, 16) << 32) | int(low, 16)
    except ValueError:
        raise ValueError(f"{text!r} is no LSN; one looks like 0/16B3748") from None


def lsn_to_str(lsn: int) -> str:
    """Inverse of `lsn_to_int`, as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
