"""The WITH options: which there are, what their values may be, and which values stay unseen.

A check takes the text of a value and returns it in the form the rest of the platform uses, or
raises ValueError saying what it must be.

Pure.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from ops.planner.names import fold

Check = Callable[[str], str]

POSTGRES_CDC = "postgres-cdc"
MASK = "'***'"
_SENSITIVE = re.compile(r"pass|pwd|secret|token|credential|key", re.IGNORECASE)
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_NAME = r'"(?:[^"]|"")+"|[^\W\d]\w*'
_NAMES = re.compile(rf"\s*(?:{_NAME})\s*(?:,\s*(?:{_NAME})\s*)*")
_SSL = {
    **{mode: mode for mode in ("disable", "allow", "prefer", "require", "verify-ca")},
    "verify-full": "verify-full",
    # The reference engine's words for the same.
    **{"disabled": "disable", "preferred": "prefer", "required": "require"},
}


def is_sensitive(option: str) -> bool:
    """Whether the value of this option must never be shown or stored."""
    return bool(_SENSITIVE.search(option))


def _text(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("must not be empty")
    return value


def _whole(low: int, high: int) -> Check:
    def check(value: str) -> str:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not low <= int(value) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return str(int(value))

    return check


def _boolean(value: str) -> str:
    if value.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return value.lower()


def _connector(value: str) -> str:
    if value != POSTGRES_CDC:
        raise ValueError(f"must be '{POSTGRES_CDC}', the only connector so far")
    return value


def _slot(value: str) -> str:
    if not _SLOT.fullmatch(value):
        raise ValueError("must be 1 to 63 lower-case letters, digits or _")
    return value


def _identifier(value: str) -> str:
    if not 1 <= len(value.encode()) <= 63 or "\0" in value:
        raise ValueError("must be 1 to 63 bytes long")
    return value


def _ssl_mode(value: str) -> str:
    if value not in _SSL:
        raise ValueError("must be disable, allow, prefer, require, verify-ca or verify-full")
    return _SSL[value]


def _numeric_as(value: str) -> str:
    if value not in ("decimal", "text"):
        raise ValueError("must be decimal or text")
    return value


def _names(value: str) -> str:
    if not names_in(value):
        raise ValueError("must be names with commas between them, in double quotes where needed")
    return value


def names_in(value: str) -> tuple[str, ...]:
    """Return the names of a list, as Postgres would read it; nothing if it is none."""
    if not _NAMES.fullmatch(value):
        return ()
    return tuple(
        part[1:-1].replace('""', '"') if part.startswith('"') else fold(part, quoted=False)
        for part in re.findall(_NAME, value)
    )


SOURCE_OPTIONS: Mapping[str, Check] = {
    "connector": _connector,
    "hostname": _text,
    "port": _whole(1, 65_535),
    "username": _text,
    "password": _text,
    "database.name": _text,
    "schema.name": _identifier,
    "slot.name": _slot,
    "publication.name": _identifier,
    "ssl.mode": _ssl_mode,
}
SOURCE_REQUIRED = ("connector", "hostname", "username", "database.name")
SOURCE_NOT_SECRET = frozenset({"connector"})
"""What the plan itself must know; every other option of a source may be a SECRET."""

TABLE_OPTIONS: Mapping[str, Check] = {
    "backfill.parallelism": _whole(0, 256),
    "backfill.num_rows_per_split": _whole(1, 1_000_000_000),
    "backfill.as_even_splits": _boolean,
    "backfill.split_pk_column_index": _whole(0, 31),
    "snapshot": _boolean,
    "snapshot.batch_size": _whole(1, 10_000_000),
    "snapshot.filter": _text,
    "vnode_count": _whole(1, 32_768),
    "numeric.as": _numeric_as,
    "columns.exclude": _names,
}


def nearest(option: str, known: Mapping[str, Check]) -> str:
    return get_close_matches(option, known, n=1, cutoff=0.0)[0]


def fault(option: str, value: str, check: Check) -> tuple[str, str]:
    """Return (the value to use, "") or ("", why it is refused), without a value nobody may see."""
    try:
        return check(value), ""
    except ValueError as error:
        shown = "" if is_sensitive(option) else f", not {value!r}"
        return "", f"option {option} {error}{shown}"
