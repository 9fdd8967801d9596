"""Texts of the environment as values; a wrong one is a ValueError with what must stand there."""

import json
import re
from collections.abc import Callable


class SecretStr:
    """Text that shows itself only when asked by name."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "SecretStr('***')"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("SecretStr", self._value))


def dsn(value: str) -> SecretStr:
    if "://" not in value and "=" not in value:
        raise ValueError("is no Postgres conninfo; write postgresql://user:password@host/database")
    return SecretStr(value)


def remote(value: str) -> tuple[str | None, SecretStr | None]:
    if not value.startswith("sc://"):
        raise ValueError("must be a Spark Connect URL, sc://host:port")
    return split_token(value)


def split_token(url: str) -> tuple[str, SecretStr | None]:
    address, _, parameters = url.partition("/;")
    kept = [p for p in parameters.split(";") if p and not p.startswith("token=")]
    tokens = [p.removeprefix("token=") for p in parameters.split(";") if p.startswith("token=")]
    shown = address + ("/;" + ";".join(kept) if kept else "")
    return shown, SecretStr(tokens[0]) if tokens else None


def memory(value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]*[kmgt]", value.lower()):
        raise ValueError(f"must be a size such as 2g or 512m, not {value!r}")
    return value.lower()


def conf(value: str) -> dict[str, str]:
    try:
        conf = json.loads(value)
    except ValueError:
        conf = None
    if not isinstance(conf, dict) or not all(isinstance(v, str) for v in conf.values()):
        raise ValueError('must be a JSON object of texts, {"spark.some.key": "value"}')
    return conf


def whole(least: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]+", value) or int(value) < least:
            raise ValueError(f"must be a whole number of at least {least}, not {value!r}")
        return int(value)

    return parse


def seconds(least: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = float("nan")
        if not seconds >= least:
            raise ValueError(f"must be seconds, at least {least:g}, not {value!r}")
        return seconds

    return parse


def switch(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {value!r}")
    return value.lower() == "true"


def endpoint(value: str) -> str:
    if not re.fullmatch(r"https?://[^/@]+", value.rstrip("/")):
        raise ValueError("must be http:// or https:// with a host and, if need be, a port")
    return value.rstrip("/")
