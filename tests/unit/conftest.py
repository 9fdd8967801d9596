"""A database to be a source, on the server the tests share."""

from collections.abc import Iterator

import pytest

from resources.embedded.postgres import RunningPostgres
from tests.support.source_place import Place


@pytest.fixture
def place(postgres: RunningPostgres) -> Iterator[Place]:
    """An empty database; the same one for each test, cleared."""
    postgres.ensure_database("source")
    made = Place(postgres, "source")
    yield made
    made.close()
