"""One Spark Connect server for all processes of a test run, whichever of them needs it first.

The first starts it and is the last to leave: it is the server's parent. Each holds a shared lock
for as long as it uses the server; its parent waits until it gets that lock alone.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resources.settings import Settings


@contextmanager
def shared_spark(folder: Path, settings: Settings) -> Iterator[str]:
    """Give the server's `sc://` URL, token included; `folder` is the run's own."""
    from resources.embedded.connect_server import connect_server

    address = folder / "spark.remote"
    with (folder / "spark.users").open("a") as users, (folder / "spark.start").open("a") as start:
        fcntl.flock(start, fcntl.LOCK_EX)
        if address.exists():
            fcntl.flock(users, fcntl.LOCK_SH)
            fcntl.flock(start, fcntl.LOCK_UN)
            yield address.read_text()
            return
        with connect_server(settings) as server:
            address.write_text(server.remote.reveal())
            fcntl.flock(start, fcntl.LOCK_UN)
            yield server.remote.reveal()
            fcntl.flock(start, fcntl.LOCK_EX)
            address.unlink()
            fcntl.flock(users, fcntl.LOCK_EX)
