"""Binary forms of Postgres -> the text Postgres prints, for types kept as their text.

Only types whose text is a plain function of the value are here; any other comes as text from the
server (`pg_values.reads_binary`). That both are the same is tested against servers.

Pure.
"""

from collections.abc import Callable, Mapping
from struct import Struct

_NUMERIC_HEAD = Struct(">hhHH").unpack_from
_NEGATIVE, _SPECIAL = 0x4000, {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


def _jsonb(raw: bytes) -> str:
    if raw[0] != 1:
        raise ValueError(f"version {raw[0]} of jsonb is not known")
    return raw[1:].decode()


def _uuid(raw: bytes) -> str:
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _numeric(raw: bytes) -> str:
    count, weight, sign, scale = _NUMERIC_HEAD(raw)
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    groups = [int.from_bytes(raw[i : i + 2], "big") for i in range(8, 8 + 2 * count, 2)]
    digits = "".join(f"{group:04}" for group in groups)
    # The point stands after the group of weight 0; there may be none before it, or none up to it.
    before = 4 * (weight + 1)
    whole = digits[: max(before, 0)].ljust(before, "0").lstrip("0") or "0"
    text = "-" + whole if sign == _NEGATIVE else whole
    if not scale:
        return text
    part = "0" * -before + digits if before < 0 else digits[before:]
    return f"{text}.{part[:scale].ljust(scale, '0')}"


def _time(raw: bytes) -> str:
    seconds, fraction = divmod(int.from_bytes(raw, "big"), 1_000_000)
    minutes, second = divmod(seconds, 60)
    text = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


BINARY_TO_TEXT: Mapping[str, Callable[[bytes], str]] = {
    "jsonb": _jsonb,
    "numeric": _numeric,
    "time": _time,
    "uuid": _uuid,
}
"""By the name of the type in Postgres."""
