"""Where the keys of a file lie: a few ranges of the first key column that hold all of them.

    keys      1 2 3        900 901          5000          cut at the widest gaps, LIMIT - 1 of them
    ranges   [1, 3]       [900, 901]       [5000, 5000]

They choose which files a look-up opens, so they may be too wide and never too narrow. Only types
whose order Spark shares: integers, dates (as days), and text by its bytes; a NULL has no place in a
range, so that keys with one have no ranges at all.

Pure.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from ops.common.schema import INTEGERS, STRINGS, DataType, Kind

KeyRange = tuple[Any, Any]
"""Both ends are inside."""
KeyRanges = tuple[KeyRange, ...]

LIMIT = 16
ORDERED = INTEGERS | STRINGS | {Kind.DATE}


def ranges_of(values: Iterable[Any], data_type: DataType) -> KeyRanges | None:
    """Return ranges around the first parts of some keys; None where there can be none."""
    if data_type.kind not in ORDERED:
        return None
    distinct = set(values)
    if not distinct or not all(_fits(value, data_type) for value in distinct):
        return None
    return _few([(value, value) for value in sorted(distinct, key=_order)])


def between(low: Any, high: Any, data_type: DataType) -> KeyRanges | None:
    """Return the one range from `low` to `high`; None where there can be none."""
    if data_type.kind not in ORDERED or not (_fits(low, data_type) and _fits(high, data_type)):
        return None
    return ((low, high),)


def joined(many: Iterable[KeyRanges | None]) -> KeyRanges | None:
    """Return ranges around all of these; None if one of them is not known."""
    ends: list[KeyRange] = []
    for ranges in many:
        if ranges is None:
            return None
        ends.extend(ranges)
    if not ends:
        return None
    ends.sort(key=lambda r: (_order(r[0]), _order(r[1])))
    apart = ends[:1]
    for low, high in ends[1:]:
        last = apart[-1]
        if _order(low) <= _order(last[1]):
            apart[-1] = (last[0], max(last[1], high, key=_order))
        else:
            apart.append((low, high))
    return _few(apart)


def overlap(one: KeyRanges, other: KeyRanges) -> bool:
    return any(
        _order(a[0]) <= _order(b[1]) and _order(b[0]) <= _order(a[1]) for a in one for b in other
    )


def is_disordered(bounds: Iterable[KeyRange]) -> bool:
    """Tell whether half of the files share places with others: bounds then choose little."""
    ordered = sorted(bounds, key=lambda r: _order(r[0]))
    if len(ordered) < 2:
        return False
    shared, reach = 0, _order(ordered[0][1])
    for low, high in ordered[1:]:
        shared += _order(low) < reach
        reach = max(reach, _order(high))
    return 2 * shared >= len(ordered)


def ranges_from_json(file: dict[str, Any]) -> KeyRanges | None:
    ranges = file["key_ranges"]
    return None if ranges is None else tuple((low, high) for low, high in ranges)


def _few(apart: Sequence[KeyRange]) -> KeyRanges:
    """Join neighbours across all but the widest gaps."""
    if len(apart) <= LIMIT:
        return tuple(apart)
    if isinstance(apart[0][0], int):
        widths = [after[0] - before[1] for before, after in pairwise(apart)]
        cuts = sorted(sorted(range(len(widths)), key=lambda i: -widths[i])[: LIMIT - 1])
    else:
        # How far two texts are from each other is not known: the same number of keys in each.
        cuts = [len(apart) * part // LIMIT - 1 for part in range(1, LIMIT)]
    firsts = [0, *(cut + 1 for cut in cuts)]
    lasts = [*cuts, len(apart) - 1]
    return tuple((apart[a][0], apart[b][1]) for a, b in zip(firsts, lasts, strict=True))


def _fits(value: Any, data_type: DataType) -> bool:
    wanted = str if data_type.kind in STRINGS else int
    return isinstance(value, wanted)


def _order(value: Any) -> Any:
    """Spark compares text by its bytes."""
    return value.encode() if isinstance(value, str) else value
