"""Each room imports only what [tool.layers] in pyproject.toml allows it."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["layers"]
MODULES = sorted(
    p for room in ("orchestration", "ops", "resources") for p in (ROOT / room).rglob("*.py")
)


def imported_roots(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def reads_environment(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports(path: Path) -> None:
    tree = ast.parse(path.read_text())
    room = path.relative_to(ROOT).parts[0]
    never = set(LAYERS[room]["never"])
    if room == "ops" and path.name != "__init__.py":
        tag = (ast.get_docstring(tree) or "").strip().splitlines()[-1:]
        assert tag in (["Pure."], ["Arrow."], ["Spark."]), "the docstring ends with its room's tag"
        if tag != ["Spark."]:
            never |= set(LAYERS["ops:" + tag[0].rstrip(".").lower()]["never"])
    assert not imported_roots(tree) & never


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_settings_reads_the_environment(path: Path) -> None:
    allowed = path == ROOT / "resources" / "settings.py"
    assert allowed or not reads_environment(ast.parse(path.read_text()))


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.name == "__init__.py"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_a_room_card_is_a_docstring_and_nothing_else(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) and len(tree.body) == 1


def test_pure_modules_load_nothing_heavy() -> None:
    """Direct imports can look clean while a package's __init__ drags Spark in; load and see."""
    pure = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in MODULES
        if (ast.get_docstring(ast.parse(path.read_text())) or "").endswith("Pure.")
    ]
    never = LAYERS["ops"]["never"] + LAYERS["ops:pure"]["never"]
    script = (
        "import importlib, sys\n"
        f"for name in {pure!r}: importlib.import_module(name)\n"
        f"print(sorted(sys.modules.keys() & set({never!r})))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
