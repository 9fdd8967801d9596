"""How many rows the next page should have: about a second and a half of them.

    too slow      fewer, in proportion
    fast          more, but at most four times as many at once
    wide rows     as many as take up MEMORY

Fewer than LEAST_ROWS are asked for only where memory wants it: below that, the time goes into
connecting and planning, and smaller pages would make it worse.

Pure.
"""

TARGET_SECONDS = 1.5
MEMORY = 64 << 20
FIRST_ROWS, LEAST_ROWS = 20_000, 1_000
GROWTH = 4


def first_rows(most: int) -> int:
    return min(FIRST_ROWS, most)


def next_rows(asked: int, *, rows: int, seconds: float, memory: int, most: int) -> int:
    """Return what to ask for after a page of `rows`, of `asked`, that took so long and so much."""
    if rows == 0:
        return asked
    by_time = int(rows * TARGET_SECONDS / max(seconds, 1e-3))
    by_time = max(by_time, LEAST_ROWS)
    if rows < asked:
        # The range ended: how long a full page takes is told only if this one was slow already.
        by_time = max(by_time, asked)
    by_memory = max(1, rows * MEMORY // max(memory, 1))
    return max(1, min(by_time, asked * GROWTH, by_memory, most))


def rows_after_failure(asked: int) -> int:
    """Return what to ask for after a page that was not answered in time."""
    return max(min(asked, LEAST_ROWS), asked // GROWTH)
