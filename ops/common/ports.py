"""What ops needs from the outside, by shape; resources fit these without importing them.

Pure.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Statements(Protocol):
    """Named statements of `sql/control`, inside a transaction or each on its own."""

    def query(self, statement: str, /, **values: Any) -> list[dict[str, Any]]: ...
    def execute(self, statement: str, /, **values: Any) -> int: ...


class Store(Statements, Protocol):
    def transaction(self) -> AbstractContextManager[Statements]: ...
    def lock(
        self, name: str, on_wait: Callable[[str], None] = ...
    ) -> AbstractContextManager[None]: ...


class Lake(Protocol):
    """Files under one root; paths are relative to it. Only what an object store can do."""

    def uri(self, path: str) -> str: ...
    def write(self, path: str, table: Any) -> int: ...
    def settle(self, paths: Sequence[str]) -> None: ...
    def list(self, directory: str) -> list[str]: ...
    def sizes(self, path: str) -> tuple[int, int]: ...
    def delete(self, path: str) -> None: ...


class Clock(Protocol):
    def now_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


Failpoint = Callable[[str], None]
"""Called with the name of a protocol step; a test makes it kill the process there."""


def unarmed(name: str) -> None:
    """The failpoint of a caller that has none to arm."""
