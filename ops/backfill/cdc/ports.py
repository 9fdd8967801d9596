"""What the CDC rooms need from a source database, by shape.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ops.backfill.cdc.evolve import Attribute
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

    def columns(self, oid: int) -> Sequence[Attribute]: ...
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


class Bounds(Protocol):
    @property
    def low(self) -> int | None: ...
    @property
    def high(self) -> int | None: ...
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
    def key_bounds(self, schema: str, table: str, key: str) -> Bounds: ...
