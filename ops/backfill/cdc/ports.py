"""What the CDC rooms need from a source database, by shape.

Pure.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ops.backfill.cdc.split import Key


class ChangeStream(Protocol):
    """The slot of a source, being read."""

    def start(self, slot: str, publication: str, from_lsn: int) -> None: ...
    def poll(self, timeout_s: float) -> list[tuple[int, bytes]]: ...
    def keepalive_position(self) -> int | None: ...
    def confirm(self, lsn: int) -> None: ...
    def close(self) -> None: ...


class Identity(Protocol):
    @property
    def system_identifier(self) -> str: ...
    @property
    def timeline(self) -> int: ...


class Slot(Protocol):
    @property
    def confirmed_flush_lsn(self) -> int | None: ...


class KeyColumn(Protocol):
    """A column of a key, as its source compares it."""

    @property
    def name(self) -> str: ...
    @property
    def bytewise(self) -> bool: ...


ScanKey = Sequence[Any]
"""`KeyColumn`s of the source's own kind, to be given back to it as they came."""


class Bounds(Protocol):
    """`low` and `high` are None for an empty table and where the key is no integer."""

    @property
    def is_integer(self) -> bool: ...
    @property
    def low(self) -> int | None: ...
    @property
    def high(self) -> int | None: ...
    @property
    def estimated_rows(self) -> int | None: ...


class Sample(Protocol):
    """Keys that rise in the source's order, with about the same number of rows between them."""

    @property
    def cuts(self) -> Sequence[Key]: ...
    @property
    def estimated_rows(self) -> int: ...


class Source(Protocol):
    """The source database, asked short questions."""

    def identity(self) -> Identity: ...
    def ensure_publication(self, name: str, tables: list[tuple[str, str]]) -> list[str]: ...
    def ensure_slot(self, name: str) -> int: ...
    def await_running_transactions(
        self, on_wait: Callable[[str], None], timeout_s: float
    ) -> float: ...
    def slot_state(self, name: str) -> Slot | None: ...
    def emit_message(self, prefix: str, content: str) -> int: ...
    def key_bounds(self, schema: str, table: str, key: Any) -> Bounds: ...
    def sample_keys(
        self, schema: str, table: str, key: ScanKey, *, rows_per_split: int, max_splits: int
    ) -> Sample: ...
