"""Spark's extra jars: fetched once by the Ivy that PySpark ships, checked against hashes kept here.

Asking Spark for the package itself would drag in 33 jars PySpark already has; these are the ones
it has not. To move to another release: change the table, run with the old hashes, and the refusal
names the new ones to compare with the publisher's.
"""

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from resources.embedded.java import Java
from resources.embedded.truststore import write_truststore
from resources.errors import SetupFailed
from resources.settings import Settings


@dataclass(frozen=True, slots=True)
class Jar:
    group: str
    name: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}.jar"


DELTA, UNITY = ("io.delta", "4.4.0"), ("io.unitycatalog", "0.6.0")
JARS = tuple(
    Jar(group, name, version, sha256)
    for (group, version), name, sha256 in (
        (
            DELTA,
            "delta-spark_4.2_2.13",
            "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
        ),
        (
            DELTA,
            "delta-storage",
            "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        ),
        (
            DELTA,
            "delta-kernel-api",
            "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
        ),
        (
            DELTA,
            "delta-kernel-defaults",
            "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
        ),
        (
            DELTA,
            "delta-kernel-unitycatalog",
            "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
        ),
        (
            UNITY,
            "unitycatalog-client",
            "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
        ),
        (
            UNITY,
            "unitycatalog-hadoop",
            "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
        ),
    )
)


def ensure_jars(settings: Settings, java: Java) -> list[Path]:
    """Return the jars' paths, fetching them first if the cache lacks one or holds a wrong one."""
    folder = settings.cache / "jars"
    if not _wrong(folder):
        return [folder / jar.file for jar in JARS]
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        # Somebody else may have fetched them while we waited.
        if _wrong(folder):
            _fetch(settings, java, folder)
    return [folder / jar.file for jar in JARS]


def spark_home() -> Path:
    """Return PySpark's own folder: its jars and scripts."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SetupFailed("PySpark is not installed; remove .venv and start ./tidegate again")
    return Path(spec.origin).parent


def _wrong(folder: Path) -> list[str]:
    return [jar.file for jar in JARS if _sha256(folder / jar.file) != jar.sha256]


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _fetch(settings: Settings, java: Java, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        fetched = Path(scratch, "out")
        said = _run_ivy(settings, java, Path(scratch), trust=None)
        store = Path(scratch, "trust.jks")
        if _wrong(fetched) and write_truststore(store):
            said = _run_ivy(settings, java, Path(scratch), trust=store)
        if wrong := _wrong(fetched):
            raise SetupFailed(_why(wrong, fetched, said))
        for jar in JARS:
            (fetched / jar.file).replace(folder / jar.file)


def _run_ivy(settings: Settings, java: Java, scratch: Path, *, trust: Path | None) -> str:
    wanted = scratch / "ivy.xml"
    wanted.write_text(
        '<ivy-module version="2.0"><info organisation="tidegate" module="jars"/><dependencies>'
        + "".join(
            f'<dependency org="{jar.group}" name="{jar.name}" rev="{jar.version}"'
            ' transitive="false" conf="*->default"/>'
            for jar in JARS
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
