"""What the CDC rooms need from a source database, by shape.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ops.backfill.cdc.evolve import Attribute
from ops.backfill.cdc.split import Key as SplitKey
from ops.common.change import Row
from ops.common.schema import Schema
from ops.common.table.net import Key
from ops.common.table.relation import Relation


class ChangeStream(Protocol):
    """The slot of a source, being read."""

    def start(self, slot: str, publication: str, from_lsn: int) -> None: ...
    def poll(self, timeout_s: float) -> list[tuple[int, bytes]]: ...
    def keepalive_position(self) -> int | None: ...
    def confirm(self, lsn: int) -> None: ...
    def close(self) -> None: ...


class Versions(Protocol):
    """Rows by key, of the lake as of the last commit or of the source at this moment.

    `columns` are those that a table of the source has at this moment, by its oid.
    """

    def columns(self, oid: int, text_numerics: bool, /) -> Sequence[Attribute]: ...
    def before(self, relation: Relation, keys: Sequence[Key]) -> Mapping[Key, Row] | None: ...
    def now(
        self, table: tuple[str, str], schema: Schema, keys: Sequence[Key]
    ) -> Mapping[Key, Row]: ...


class Identity(Protocol):
    @property
    def system_identifier(self) -> str: ...
    @property
    def timeline(self) -> int: ...


class Slot(Protocol):
    @property
    def confirmed_flush_lsn(self) -> int | None: ...
    @property
    def wal_status(self) -> str | None: ...


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
    def cuts(self) -> Sequence[SplitKey]: ...
    @property
    def estimated_rows(self) -> int: ...


class Source(Protocol):
    """The source database, asked short questions."""

    def identity(self) -> Identity: ...
    def require_ready(self) -> None: ...
    def has_publication(self, name: str) -> bool: ...
    def unpublished(
        self, name: str, tables: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], str]:
        """Return which of these tables are not published whole, and how that is."""
        ...

    def ensure_publication(self, name: str, tables: list[tuple[str, str]]) -> list[str]: ...
    def ensure_slot(self, name: str) -> int: ...
    def await_running_transactions(
        self, on_wait: Callable[[str], None], timeout_s: float
    ) -> float: ...
    def disconnect_reader(self, name: str) -> None: ...
    def drop_slot(self, name: str) -> None: ...
    def slot_state(self, name: str) -> Slot | None: ...
    def emit_message(self, prefix: str, content: str) -> int: ...
    def key_bounds(self, schema: str, table: str, key: Any) -> Bounds: ...
    def sample_keys(
        self, schema: str, table: str, key: ScanKey, *, rows_per_split: int, max_splits: int
    ) -> Sample: ...
