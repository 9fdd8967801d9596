"""Spark's extra jars: fetched once by the Ivy that PySpark ships, checked against hashes kept here.

Asking Spark for the package itself would drag in 33 jars PySpark already has; these are the ones
it has not. To move to another release: change `jar_table`, run with the old hashes, and the refusal
names the new ones to compare with the publisher's.
"""

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from resources.embedded.jar_table import DELTA, S3, Jar
from resources.embedded.java import Java
from resources.embedded.truststore import write_truststore
from resources.errors import SetupFailed
from resources.object_store import object_store
from resources.settings import Settings


def needed_jars(settings: Settings) -> tuple[Jar, ...]:
    return DELTA if object_store(settings) is None else DELTA + S3


def ensure_jars(settings: Settings, java: Java, wanted: Sequence[Jar] = ()) -> list[Path]:
    """Return the jars' paths, fetching them first if the cache lacks one or holds a wrong one.

    `wanted` in place of those that Spark needs.
    """
    folder, jars = settings.cache / "jars", tuple(wanted) or needed_jars(settings)
    if not _wrong(folder, jars):
        return [folder / jar.file for jar in jars]
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        # Somebody else may have fetched them while we waited.
        if _wrong(folder, jars):
            _fetch(settings, java, folder, jars)
    return [folder / jar.file for jar in jars]


def spark_home() -> Path:
    """Return PySpark's own folder: its jars and scripts."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupFailed("PySpark is not installed; remove .venv and start ./tidegate again")
    return Path(spec.origin).parent


def _wrong(folder: Path, jars: Sequence[Jar]) -> list[str]:
    return [jar.file for jar in jars if _sha256(folder / jar.file) != jar.sha256]


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _fetch(settings: Settings, java: Java, folder: Path, jars: Sequence[Jar]) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        fetched = Path(scratch, "out")
        said = _run_ivy(settings, java, Path(scratch), jars, trust=None)
        store = Path(scratch, "trust.jks")
        if _wrong(fetched, jars) and write_truststore(store):
            said = _run_ivy(settings, java, Path(scratch), jars, trust=store)
        if wrong := _wrong(fetched, jars):
            raise SetupFailed(_why(wrong, fetched, said))
        for jar in jars:
            (fetched / jar.file).replace(folder / jar.file)


def _run_ivy(
    settings: Settings, java: Java, scratch: Path, jars: Sequence[Jar], *, trust: Path | None
) -> str:
    wanted = scratch / "ivy.xml"
    wanted.write_text(
        '<ivy-module version="2.0"><info organisation="tidegate" module="jars"/><dependencies>'
        + "".join(
            f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}"'
            ' transitive="false" conf="*->default"/>'
            for jar in jars
        )
        + "</dependencies></ivy-module>"
    )
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    command = [str(java.program), f"-Divy.default.ivy.user.dir={scratch}"]
    if trust is not None:
        command += [f"-Djavax.net.ssl.trustStore={trust}", "-Djavax.net.ssl.trustStoreType=JKS"]
    command += ["-cp", str(ivy), "org.apache.ivy.Main", "-m2compatible", "-types", "jar", "bundle"]
    command += ["-ivy", str(wanted), "-cache", str(scratch / "cache")]
    command += ["-retrieve", f"{scratch}/out/[artifact]-[revision].[ext]"]
    if settings.ivy_settings is not None:
        command += ["-settings", str(settings.ivy_settings)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=scratch)
    return done.stdout + done.stderr


def _why(wrong: list[str], fetched: Path, said: str) -> str:
    found = {name: _sha256(fetched / name) for name in wrong}
    if changed := {name: value for name, value in found.items() if value}:
        return f"fetched jars are not the ones we know, do not use them: {changed}"
    errors = [line.strip() for line in said.splitlines() if "error" in line.lower()]
    reason = errors[0][:300] if errors else "no answer"
    return (
        f"Spark's extra jars could not be fetched ({reason}); check the network, "
        "or name your own repository in TIDEGATE_IVY_SETTINGS"
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
