"""Find the statement of a name under `sql/`: one statement a file, bound by parameters."""

from functools import cache
from importlib.resources import files

# Imported now: Dagster has the project on the path only while it loads the definitions.
import sql


@cache
def read_statement(name: str) -> str:
    """Return the text of `sql/<name>.sql`."""
    return files(sql).joinpath(*f"{name}.sql".split("/")).read_text()


def migrations() -> list[tuple[int, str]]:
    """Return the control store's migrations as (number, text), in order."""
    found = [
        (int(entry.name.split("_")[0]), entry.read_text())
        for entry in files(sql).joinpath("control", "migrations").iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found)
