"""What a name means and which names may be used.

    unquoted            folds to lower case, ASCII letters only, as Postgres does
    relation, pipeline  letters, digits and _: they become asset keys, folders and graph names
    column              anything a Delta table can hold, but not `_tg_…`, which is ours
    two of them         must differ by more than case: Spark and many file systems do not see case

Pure.
"""

import re
from collections.abc import Iterable

HIDDEN = "_tg_"
LONGEST = 63
_LOWER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_RELATION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_DELTA = frozenset(" ,;{}()\n\t=")


def fold(name: str, *, quoted: bool) -> str:
    return name if quoted else name.translate(_LOWER)


def hidden_key(column: str) -> str:
    """Return the name under which a grouping column is kept that is not selected."""
    return f"{HIDDEN}key_{column}"


def relation_fault(name: str) -> str:
    """Return why `name` cannot name a relation or a pipeline, or nothing."""
    if not _RELATION.fullmatch(name):
        return "may hold only letters, digits and _, and begins with no digit"
    return _length_fault(name)


def column_fault(name: str) -> str:
    """Return why `name` cannot name a column, or nothing."""
    if name.lower().startswith(HIDDEN):
        return f"begins with {HIDDEN}, which is kept for hidden columns"
    if bad := sorted(_NOT_IN_DELTA & set(name)):
        return f"holds {bad[0]!r}, which a Delta table cannot have in a column name"
    return _length_fault(name)


def clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that differ in case at most."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            return other, name
    return None


def _length_fault(name: str) -> str:
    if not name:
        return "is empty"
    return f"is longer than {LONGEST} bytes" if len(name.encode()) > LONGEST else ""
