"""What a user may set of a running pipeline, and how it is written.

    barrier_interval        500ms, 2s, 10m, 1h or `default`; from 100ms to 24h
    checkpoint_frequency    1 to 10000 or `default`: every how many barriers one is a checkpoint

The store holds them; a stream run takes them at its next look, without a restart.

Pure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ops.common.errors import ConfigError

INTERVAL, FREQUENCY = "barrier_interval", "checkpoint_frequency"
DEFAULT = "default"
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
SHORTEST_MS, LONGEST_MS = 100, 24 * UNITS_MS["h"]
MOST_BARRIERS = 10_000
MOST_READERS = 256


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What is to be set; a name that is not in `named` stays, None is the deployment's setting."""

    named: frozenset[str]
    interval_ms: int | None = None
    checkpoint_frequency: int | None = None

    def values(self) -> dict[str, Any]:
        """Return what `set_pipeline_settings` binds."""
        return {
            "has_interval": INTERVAL in self.named,
            "interval_ms": self.interval_ms,
            "has_frequency": FREQUENCY in self.named,
            "checkpoint_frequency": self.checkpoint_frequency,
        }


def parse_settings(words: Sequence[str]) -> LiveSettings:
    """Return what `name=value …` asks for, or raise a sentence that says what is wrong."""
    found: dict[str, int | None] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in (INTERVAL, FREQUENCY):
            raise ConfigError(
                f"{name!r} cannot be set while a pipeline runs; there are: {INTERVAL}, {FREQUENCY}"
            )
        if not equals or not value:
            raise ConfigError(f"{name} needs a value; write {name}={_example(name)}")
        if name in found:
            raise ConfigError(f"{name} is given twice")
        parse = parse_interval_ms if name == INTERVAL else _parse_frequency
        found[name] = None if value == DEFAULT else parse(value)
    if not found:
        raise ConfigError(f"say what to set: {INTERVAL}=500ms, {FREQUENCY}=4")
    return LiveSettings(frozenset(found), found.get(INTERVAL), found.get(FREQUENCY))


def parse_interval_ms(text: str) -> int:
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if matched is None:
        raise ConfigError(f"{INTERVAL}={text} is no duration; write 500ms, 2s, 10m or 1h")
    ms = round(float(matched[1]) * UNITS_MS[matched[2]])
    if not SHORTEST_MS <= ms <= LONGEST_MS:
        raise ConfigError(f"{INTERVAL}={text} is out of bounds; it may be 100ms to 24h")
    return ms


def _parse_frequency(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text) or not 1 <= int(text) <= MOST_BARRIERS:
        raise ConfigError(
            f"{FREQUENCY}={text} is out of bounds; it is a whole number from 1 to {MOST_BARRIERS}"
        )
    return int(text)


def parse_rows_per_s(text: str) -> int | None:
    """Return a limit of rows per second; None, for `none` or 0, is no limit."""
    if text in ("none", "0"):
        return None
    if not re.fullmatch(r"\d{1,12}", text) or int(text) == 0:
        raise ConfigError(
            f"{text!r} is no number of rows per second; write a whole number, or none for no limit"
        )
    return int(text)


def parse_parallelism(text: str) -> int | None:
    """Return how many readers a backfill is to have; None, for `default`, is as it is defined."""
    if text == DEFAULT:
        return None
    if not re.fullmatch(r"\d{1,3}", text) or not 1 <= int(text) <= MOST_READERS:
        raise ConfigError(
            f"{text!r} is no number of readers; write one from 1 to {MOST_READERS}, or {DEFAULT}"
        )
    return int(text)


def show_interval(ms: int) -> str:
    """Return a duration as it is written."""
    unit = next(u for u in ("h", "m", "s", "ms") if ms % UNITS_MS[u] == 0)
    return f"{ms // UNITS_MS[unit]}{unit}"


def _example(name: str) -> str:
    return "500ms" if name == INTERVAL else "4"
