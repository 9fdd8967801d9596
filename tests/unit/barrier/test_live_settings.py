"""What may be set while a pipeline runs, and what is refused with a sentence."""

import pytest

from ops.barrier_worker.live_settings import (
    LiveSettings,
    parse_interval_ms,
    parse_parallelism,
    parse_rows_per_s,
    parse_settings,
    show_interval,
)
from ops.common.errors import ConfigError

BOTH = frozenset({"barrier_interval", "checkpoint_frequency"})


def test_both_one_and_the_way_back() -> None:
    assert parse_settings(["barrier_interval=500ms", "checkpoint_frequency=4"]) == LiveSettings(
        BOTH, 500, 4
    )
    one = parse_settings(["checkpoint_frequency=2"])
    assert one.values() == {
        "has_interval": False,
        "interval_ms": None,
        "has_frequency": True,
        "checkpoint_frequency": 2,
    }
    back = parse_settings(["barrier_interval=default"])
    assert back.values()["has_interval"] and back.interval_ms is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [("100ms", 100), ("1s", 1000), ("1.5s", 1500), ("10m", 600_000), ("24h", 86_400_000)],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_interval_ms(text) == ms
    assert parse_interval_ms(show_interval(ms)) == ms


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say what to set"),
        (["linger=3"], "'linger' cannot be set .* there are: barrier_interval"),
        (["barrier_interval"], "needs a value; write barrier_interval=500ms"),
        (["checkpoint_frequency="], "needs a value"),
        (["barrier_interval=99ms"], "100ms to 24h"),
        (["barrier_interval=25h"], "100ms to 24h"),
        (["barrier_interval=500"], "is no duration"),
        (["barrier_interval=-1s"], "is no duration"),
        (["barrier_interval=nans"], "is no duration"),
        (["checkpoint_frequency=0"], "from 1 to 10000"),
        (["checkpoint_frequency=10001"], "from 1 to 10000"),
        (["checkpoint_frequency=1.5"], "from 1 to 10000"),
        (["checkpoint_frequency=1", "checkpoint_frequency=2"], "given twice"),
    ],
)
def test_refused(words: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_settings(words)


def test_readers() -> None:
    assert [parse_parallelism(t) for t in ("1", "256", "default")] == [1, 256, None]
    for wrong in ("0", "257", "-1", "1.5", "many", ""):
        with pytest.raises(ConfigError, match="readers"):
            parse_parallelism(wrong)


def test_rates() -> None:
    assert [parse_rows_per_s(t) for t in ("1", "50000", "0", "none")] == [1, 50000, None, None]
    for wrong in ("-1", "1.5", "fast", "", "00"):
        with pytest.raises(ConfigError, match="rows per second"):
            parse_rows_per_s(wrong)
