"""A real server for the tests of resources."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres
from tests.support.source_place import Place


@pytest.fixture(scope="session")
def postgres() -> Iterator[RunningPostgres]:
    # Not pytest's own folder: under root the server runs as another user, who must get there.
    home = Path(tempfile.mkdtemp(prefix="tidegate-test-"))
    os.chmod(home, 0o711)
    with EmbeddedPostgres(home, durable=False).acquire() as server:
        yield server
    shutil.rmtree(home)


@pytest.fixture
def place(postgres: RunningPostgres) -> Iterator[Place]:
    """An empty database; the same one for each test, cleared."""
    postgres.ensure_database("source")
    made = Place(postgres, "source")
    yield made
    made.close()
