"""The clock of the platform never stands still, whatever the machine's clock does."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ops.common.epoch import ORIGIN_MS, ZERO, Epoch, epoch_at, next_epoch, show, unix_ms

MOMENTS = st.integers(min_value=ORIGIN_MS, max_value=ORIGIN_MS + 10**13)


def test_the_origin_is_the_first_of_april_2021() -> None:
    assert datetime(2021, 4, 1, tzinfo=UTC).timestamp() * 1000 == ORIGIN_MS
    assert epoch_at(ORIGIN_MS) == ZERO
    assert epoch_at(ORIGIN_MS + 1) == 1 << 16
    assert show(epoch_at(ORIGIN_MS + 1)) == "2021-04-01T00:00:00.001+00:00"


@given(MOMENTS)
def test_a_moment_survives(ms: int) -> None:
    assert unix_ms(epoch_at(ms)) == ms


@given(st.lists(MOMENTS, min_size=1))
def test_epochs_rise_whatever_the_clock_says(clock: list[int]) -> None:
    prev = ZERO
    for now in clock:
        epoch = next_epoch(prev, now)
        assert epoch > prev
        assert epoch == max(epoch_at(now), prev + (1 << 16))
        prev = epoch


def test_a_clock_that_stands_or_steps_back_costs_one_millisecond() -> None:
    now = ORIGIN_MS + 1000
    first = next_epoch(ZERO, now)
    assert unix_ms(first) == now
    assert unix_ms(next_epoch(first, now)) == now + 1
    assert unix_ms(next_epoch(first, now - 500)) == now + 1
    # A `prev` with something in its low bits is still passed.
    assert next_epoch(Epoch(first + 7), now) > first + 7
