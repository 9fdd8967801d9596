"""Postgres as a server: a database on each version there is here, and one of the shared server."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres
from tests.support import debian_postgres
from tests.support.source_place import Place
from tests.unit.conftest import place, shared

__all__ = ["place", "server", "shared", "versions"]


@pytest.fixture(scope="module", params=["18", "16", "debian"])
def server(request: pytest.FixtureRequest, session_home: Path) -> Iterator[RunningPostgres]:
    if request.param == "18":
        yield request.getfixturevalue("postgres")
        return
    with ExitStack() as stack:
        if request.param == "16":
            home = session_home / "sixteen"
            made = EmbeddedPostgres(home, version=16, durable=False).acquire()
        else:
            programs = debian_postgres.installed()
            if programs is None:
                pytest.skip("no Postgres of the system's own packages is installed")
            made = debian_postgres.running(programs)
        yield stack.enter_context(made)


@pytest.fixture
def versions(server: RunningPostgres) -> Iterator[Place]:
    server.ensure_database("types")
    made = Place(server, "types")
    yield made
    made.close()
