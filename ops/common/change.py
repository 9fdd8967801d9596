"""Rows and their changes.

An update carries both halves together, so that half an update cannot be written.

Pure.
"""

from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    row: Row


@dataclass(frozen=True, slots=True)
class Delete:
    """`row` may hold only the key's values, the others None, where the source sends no more."""

    row: Row
    full: bool = True


@dataclass(frozen=True, slots=True)
class Update:
    """`before` is None where the source sends no before image and the key did not change."""

    before: Row | None
    after: Row
    full: bool = True
    """Whether `before` is the whole row, not only its key."""
    holes: tuple[int, ...] = ()
    """Where in `after` a large value stands that did not change and was not sent."""


Change = Insert | Delete | Update
