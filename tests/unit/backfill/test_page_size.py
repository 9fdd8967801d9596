"""Pages grow while they are quick and shrink when they are slow or wide; waits grow and vary."""

from hypothesis import given
from hypothesis import strategies as st

from ops.backfill.backoff import FIRST_SECONDS, LONGEST_SECONDS, delay
from ops.backfill.page_size import (
    GROWTH,
    LEAST_ROWS,
    MEMORY,
    TARGET_SECONDS,
    first_rows,
    next_rows,
    rows_after_failure,
)

MOST = 500_000


@given(speed=st.floats(100, 2e6), fixed=st.floats(0, 0.2), width=st.integers(1, 1_000_000))
def test_it_settles_at_what_a_task_may_take(speed: float, fixed: float, width: int) -> None:
    """A source reads `speed` rows a second of `width` bytes, and needs `fixed` seconds before."""
    asked = first_rows(MOST)
    for _ in range(30):
        seconds = fixed + asked / speed
        before = asked
        asked = next_rows(asked, rows=asked, seconds=seconds, memory=asked * width, most=MOST)
        assert 1 <= asked <= min(MOST, before * GROWTH)
    assert asked * width <= MEMORY or asked == 1
    seconds = fixed + asked / speed
    assert seconds <= TARGET_SECONDS * 1.2 or asked <= LEAST_ROWS
    small = asked < 0.8 * min(MOST, MEMORY // width)
    assert not small or seconds > TARGET_SECONDS * 0.5


def test_the_end_of_a_range_says_little() -> None:
    assert next_rows(10_000, rows=0, seconds=0.1, memory=0, most=MOST) == 10_000
    assert next_rows(10_000, rows=10, seconds=0.1, memory=100, most=MOST) == 10_000
    assert next_rows(10_000, rows=10, seconds=0.1, memory=10 * MEMORY, most=MOST) == 1


def test_after_a_failure_it_is_smaller_and_comes_to_an_end() -> None:
    sizes = [500_000]
    for _ in range(10):
        sizes.append(rows_after_failure(sizes[-1]))
    assert sizes[:3] == [500_000, 125_000, 31_250] and sizes[-1] == LEAST_ROWS
    assert rows_after_failure(7) == 7


@given(st.integers(1, 1000), st.floats(0, 1, exclude_max=True))
def test_waits_grow_and_vary(failures: int, chance: float) -> None:
    wait = delay(failures, chance)
    assert FIRST_SECONDS / 2 <= wait <= LONGEST_SECONDS
    assert delay(failures + 1, chance) >= wait
    assert delay(failures, 0.0) * 2 >= wait
