"""A database to be a source, and a control store, on the server the tests share."""

from collections.abc import Iterator

import pytest

from resources.control_store import ControlStore
from resources.embedded.postgres import RunningPostgres
from tests.support.control import shared_store
from tests.support.source_place import Place


@pytest.fixture
def place(postgres: RunningPostgres) -> Iterator[Place]:
    """An empty database; the same one for each test, cleared."""
    postgres.ensure_database("source")
    made = Place(postgres, "source")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(postgres: RunningPostgres) -> Iterator[ControlStore]:
    store = shared_store(postgres)
    yield store
    store.close()
