"""Every external effect has a failpoint on both sides; what is listed and what is called agree."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.backfill.failpoints import EFFECTS, FAILPOINTS, kill_at, no_failpoint

ROOT = Path(__file__).parents[3]
ROOMS = [*(ROOT / "ops").rglob("*.py")] + [
    ROOT / "orchestration" / f"{name}.py"
    for name in ("running", "wiring", "backfilling", "maintenance", "verifying")
]
# What the ports offer that changes something outside of the process: the object it is called on
# (by the end of its name) and the method.
CALLS = {
    ("store", "execute"),
    ("store", "transaction"),
    ("lake", "write"),
    ("lake", "delete"),
    ("delta", "create"),
    ("delta", "vacuum"),
    ("spark", "sql"),
    ("pages", "read"),
    ("source", "ensure_publication"),
    ("source", "ensure_slot"),
    ("source", "drop_publication_table"),
    ("source", "drop_publication"),
    ("source", "drop_slot"),
    ("source", "emit_message"),
    ("self", "_emit"),
    ("stream", "confirm"),
}
WRITING_QUERIES = ("insert_", "acquire_", "take_over_", "release_")
# Transactions that change nothing: they look under a lock.
LOOKS = {
    ("commit.py", "_landed"),
    ("fold.py", "fold"),
    ("table_backfill.py", "run"),
    # Bracketed by its only caller.
    ("pins.py", "_take"),
}
# A command is its own record: one that was not written was not given.
COMMANDS = {("running.py", "flush")}
# What is trimmed is a trace that nobody reads again.
TRACES = {("worker.py", "_trim")}


def _target(call: ast.Call) -> tuple[str, str]:
    """Return the last two words of what is called: `self.store.execute` gives store, execute."""
    if isinstance(call.func, ast.Name):
        return "", call.func.id
    if not isinstance(call.func, ast.Attribute):
        return "", ""
    owner = call.func.value
    word = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return word.lstrip("_"), call.func.attr


def _is_effect(call: ast.Call) -> bool:
    owner, method = _target(call)
    if (owner, method) in CALLS:
        return True
    if method == "query" and owner == "store" and isinstance(call.args[0], ast.Constant):
        return str(call.args[0].value).startswith(WRITING_QUERIES)
    return method == "parquet" and ".write." in ast.unparse(call.func)


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield node


def _calls(function: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls of a function itself, not those of functions within it."""
    found, todo = [], list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Call):
            found.append(node)
        todo.extend(ast.iter_child_nodes(node))
    return found


def _is_failpoint(call: ast.Call, side: str) -> bool:
    if _target(call)[1] not in ("failpoint", "_failpoint"):
        return False
    return f".{side}_" in ast.unparse(call.args[0])


def effects() -> list[tuple[str, str, int, bool]]:
    """Return (file, function, line, is it bracketed) of every effect."""
    found = []
    for path in ROOMS:
        for function in _functions(path):
            calls = _calls(function)
            for call in calls:
                if not _is_effect(call):
                    continue
                before = any(_is_failpoint(c, "before") and c.lineno < call.lineno for c in calls)
                after = any(_is_failpoint(c, "after") and c.lineno > call.lineno for c in calls)
                found.append((path.name, function.name, call.lineno, before and after))
    return found


def test_every_effect_has_a_failpoint_on_both_sides() -> None:
    found = effects()
    bare = {(file, function) for file, function, _, bracketed in found if not bracketed}
    assert bare == LOOKS | COMMANDS | TRACES
    assert len(found) > len(EFFECTS) - 5, "the search itself must not have gone blind"


def called() -> set[str]:
    """Return the names given to failpoints in the code, those of `commit_epoch` spelled out."""
    names: set[str] = set()
    for path in ROOMS:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                names |= _names(node)
    return names


def _names(call: ast.Call) -> set[str]:
    method = _target(call)[1]
    if method in ("failpoint", "_failpoint"):
        return {a.value for a in call.args if isinstance(a, ast.Constant)}
    given = {k.arg: k.value for k in call.keywords}
    if method in ("commit_epoch", "_commit") and "name" in given:
        words = [n.value for n in ast.walk(given["name"]) if isinstance(n, ast.Constant)]
        return {f"{word}.{side}_commit" for word in words for side in ("before", "after")}
    return set()


def test_listed_and_called_are_the_same() -> None:
    assert called() == set(FAILPOINTS)
    assert len(set(FAILPOINTS)) == len(FAILPOINTS) == 2 * len(EFFECTS)


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
