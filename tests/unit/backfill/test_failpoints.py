"""Every failpoint that code calls is listed, and every listed one is called somewhere."""

import ast
import re
from pathlib import Path

import pytest

from ops.backfill.failpoints import FAILPOINTS, kill_at, no_failpoint

ROOT = Path(__file__).parents[3]


def called() -> set[str]:
    """Return the names given to failpoints in the code, those of `commit_epoch` spelled out."""
    names: set[str] = set()
    for room in ("ops", "resources", "orchestration"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    names |= _names(node)
    return names


def _names(call: ast.Call) -> set[str]:
    target = (
        call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    )
    if target in ("failpoint", "_failpoint"):
        return {a.value for a in call.args if isinstance(a, ast.Constant)}
    given = {k.arg: k.value for k in call.keywords}
    if target in ("commit_epoch", "_commit") and "name" in given:
        words = [n.value for n in ast.walk(given["name"]) if isinstance(n, ast.Constant)]
        return {f"{word}.{side}_commit" for word in words for side in ("before", "after")}
    return set()


def test_listed_and_called_are_the_same() -> None:
    assert called() == set(FAILPOINTS)


def test_each_effect_has_both_sides() -> None:
    assert len(set(FAILPOINTS)) == len(FAILPOINTS)
    sides: dict[str, set[str]] = {}
    for name in FAILPOINTS:
        found = re.fullmatch(r"([a-z]+)\.(before|after)_([a-z_]+)", name)
        assert found, name
        sides.setdefault(f"{found[1]}.{found[3]}", set()).add(found[2])
    assert all(both == {"before", "after"} for both in sides.values()), sides


def test_an_unlisted_name_is_refused(tmp_path: Path) -> None:
    no_failpoint(FAILPOINTS[0])
    with pytest.raises(AssertionError, match="nowhere"):
        no_failpoint("nowhere")
    with pytest.raises(ValueError, match="nowhere"):
        kill_at("nowhere", tmp_path / "note")


def test_others_pass_an_armed_one(tmp_path: Path) -> None:
    failpoint = kill_at(FAILPOINTS[0], tmp_path / "note")
    failpoint(FAILPOINTS[1])
    assert not (tmp_path / "note").exists()
