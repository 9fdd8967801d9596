"""The Postgres of the system's packages, where there is one: another version, and extensions."""

import os
import re
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resources.embedded.account import server_account
from resources.embedded.loopback import HOST, free_port
from resources.embedded.postgres import RunningPostgres
from resources.settings import SecretStr

ROOT = Path("/usr/lib/postgresql")


def installed() -> Path | None:
    """Return the newest version's folder of programs."""
    found = [p for p in ROOT.glob("*/bin/postgres") if re.fullmatch(r"\d+", p.parents[1].name)]
    return max((p.parent for p in found), key=lambda p: int(p.parent.name), default=None)


@contextmanager
def running(programs: Path) -> Iterator[RunningPostgres]:
    """Start a server that is gone with the block."""
    account, port, password = server_account(), free_port(), secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory(prefix="tidegate-debian-", dir="/var/tmp") as folder:
        given, data = Path(folder, "password"), Path(folder, "data")
        given.write_text(password)
        account.own(given)
        account.own(Path(folder))

        def run(program: str, *arguments: str) -> None:
            log = Path(folder, "log")
            with log.open("a") as out:
                done = subprocess.run(
                    [str(programs / program), "-D", str(data), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    cwd="/",
                    env={"LC_ALL": "C", "PATH": os.defpath},
                    start_new_session=True,
                    **account.credentials(),
                )
            assert done.returncode == 0, log.read_text()

        auth = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={given}"]
        run("initdb", *auth, "-E", "UTF8", "--locale=C", "--no-sync")
        server = f"-p {port} -h {HOST} -k '' -c wal_level=logical -c fsync=off"
        run("pg_ctl", "start", "-w", "-o", server)
        try:
            yield RunningPostgres(HOST, port, "postgres", SecretStr(password))
        finally:
            run("pg_ctl", "stop", "-w", "-m", "fast")
