"""The net effect of a sequence of changes: one row per key.

    known   old       new       meaning
    yes     absent    row       the key came into being
    yes     row       row       it changed
    yes     row       absent    it ended
    yes     absent    absent    it came and went: kept, since a snapshot may have seen it
    no      ?         row / -   what it was before must be looked up

`old` is that of the first change, `new` that of the last. A key change is a delete of the old key
and an insert of the new one.

A **hole** is a value of `new` that the source did not send, since it is large and did not change.
It is filled from the row's previous version under its old key: here, if the sequence has it; else
its value is that of the row which had `origin` as its key when the sequence began. Two rows that
swap their keys so keep their documents.

Pure.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from ops.common.change import Change, Delete, Insert, Row, Update

Key = tuple[object, ...]


@dataclass(slots=True)
class NetRow:
    """Mutable while a batch is being netted: `new` moves with each change.

    At the positions in `holes` the values of `new` are those of `origin` before.
    """

    known: bool
    old: Row | None
    new: Row | None
    holes: tuple[int, ...] = ()
    origin: Key | None = None


Net = dict[Key, NetRow]


def net_changes(changes: Iterable[Change], key_of: Callable[[Row], Key]) -> Net:
    net: Net = {}
    for change in changes:
        match change:
            case Insert(row):
                _apply(net, key_of(row), NetRow(True, None, row))
            case Delete(row, full):
                _apply(net, key_of(row), NetRow(full, row if full else None, None))
            case Update(before, after, full, holes):
                after_key = key_of(after)
                before_key = after_key if before is None else key_of(before)
                origin: Key | None = None
                if holes:
                    after, holes, origin = _filled(after, holes, net.get(before_key), before_key)
                old = before if full else None
                if before_key == after_key:
                    _apply(net, after_key, NetRow(full, old, after, holes, origin))
                else:
                    _apply(net, before_key, NetRow(full, old, None))
                    _apply(net, after_key, NetRow(True, None, after, holes, origin))
            case _:
                assert_never(change)
    return net


def _apply(net: Net, key: Key, now: NetRow) -> None:
    found = net.get(key)
    if found is None:
        net[key] = now
    else:
        found.new, found.holes, found.origin = now.new, now.holes, now.origin


def _filled(
    row: Row, holes: tuple[int, ...], previous: NetRow | None, key: Key
) -> tuple[Row, tuple[int, ...], Key | None]:
    """Return a row with what its previous version says, the holes that stay, and of what row."""
    values = list(row)
    origin: Key | None = key
    given: Row | None = None
    left = holes
    if previous is not None and previous.new is not None:
        given = previous.new
        left = tuple(i for i in holes if i in previous.holes)
        origin = previous.origin if left else None
    for position in holes:
        values[position] = None if given is None or position in left else given[position]
    return tuple(values), left, origin


def moved_holes(net: Net) -> dict[Key, NetRow]:
    """Return the rows whose holes another key's row fills: no later reader can do that."""
    return {key: row for key, row in net.items() if row.holes and row.origin != key}


def fill_holes(rows: Iterable[NetRow], found: Mapping[Key, Row]) -> None:
    """Take from `found`, by origin, what is open; what is not there stays NULL."""
    for row in rows:
        assert row.new is not None and row.origin is not None
        source = found.get(row.origin)
        if source is not None:
            values = list(row.new)
            for position in row.holes:
                values[position] = source[position]
            row.new = tuple(values)
        row.holes, row.origin = (), None


def merge_net(first: NetRow, second: NetRow) -> NetRow:
    """Return two consecutive net rows of one key as one; a hole keeps to its key."""
    new, left, origin = second.new, second.holes, second.origin
    if new is not None and left:
        assert origin is not None
        new, left, origin = _filled(new, left, first, origin)
    return NetRow(first.known, first.old, new, left, origin)


def without_before_images(net: Net) -> Net:
    """Return the same with each `old` to be looked up: for a table that has not all rows."""
    return {
        key: row if row.old is None else replace(row, known=False, old=None)
        for key, row in net.items()
    }
