"""A control store and a lake for tables that are read by the shared Spark server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.control_store import ControlStore
from resources.embedded.postgres import RunningPostgres
from resources.lake import Lake
from tests.support.control import Place, new_place, shared_store
from tests.support.live_table import close_folding


@pytest.fixture(scope="module")
def control(postgres: RunningPostgres) -> Iterator[ControlStore]:
    store = shared_store(postgres)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def no_session_is_left() -> Iterator[None]:
    yield
    close_folding()


@pytest.fixture
def place(control: ControlStore) -> Place:
    return new_place(control)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))
