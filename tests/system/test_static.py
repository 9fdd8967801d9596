"""The code reads as one author's: ruff's rules and format, mypy --strict on ops and resources."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["ops", "resources", "orchestration", "tests", "tidegate.py"]

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", *ROOMS],
        ["ruff", "format", "--check", *ROOMS],
        ["mypy", "--strict", "ops", "resources"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_static(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
