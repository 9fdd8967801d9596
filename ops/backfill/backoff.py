"""How long to wait before the same step is tried again: longer each time, never all at once.

    delay(n) = between half and the whole of FIRST · 2^n, at most LONGEST

What fails together must not come back together, so that the half is a matter of chance.

Pure.
"""

FIRST_SECONDS = 0.2
LONGEST_SECONDS = 10.0
GIVE_UP_SECONDS = 300.0


def delay(failures: int, chance: float) -> float:
    """Return how long to wait after so many failures in a row; `chance` is in [0, 1)."""
    longest = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 30), LONGEST_SECONDS)
    return longest * (0.5 + 0.5 * chance)
