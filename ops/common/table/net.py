"""The net effect of a sequence of changes: one row per key.

    known   old       new       meaning
    yes     absent    row       the key came into being
    yes     row       row       it changed
    yes     row       absent    it ended
    yes     absent    absent    it came and went: kept, since a snapshot may have seen it
    no      ?         row / -   what it was before must be looked up

`old` is that of the first change, `new` that of the last. A key change is a delete of the old key
and an insert of the new one.

Pure.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from ops.common.change import Change, Delete, Insert, Row, Update

Key = tuple[object, ...]


@dataclass(slots=True)
class NetRow:
    """Mutable while a batch is being netted: `new` moves with each change."""

    known: bool
    old: Row | None
    new: Row | None


Net = dict[Key, NetRow]


def net_changes(changes: Iterable[Change], key_of: Callable[[Row], Key]) -> Net:
    net: Net = {}
    for change in changes:
        match change:
            case Insert(row):
                _apply(net, key_of(row), known=True, old=None, new=row)
            case Delete(row, full):
                _apply(net, key_of(row), known=full, old=row if full else None, new=None)
            case Update(before, after, full):
                if before is None:
                    _apply(net, key_of(after), known=False, old=None, new=after)
                    continue
                before_key, after_key = key_of(before), key_of(after)
                old = before if full else None
                if before_key == after_key:
                    _apply(net, after_key, known=full, old=old, new=after)
                else:
                    _apply(net, before_key, known=full, old=old, new=None)
                    _apply(net, after_key, known=True, old=None, new=after)
            case _:
                assert_never(change)
    return net


def _apply(net: Net, key: Key, *, known: bool, old: Row | None, new: Row | None) -> None:
    found = net.get(key)
    if found is None:
        net[key] = NetRow(known, old, new)
    else:
        found.new = new


def merge_net(first: NetRow, second: NetRow) -> NetRow:
    """Return two consecutive net rows of one key as one."""
    return NetRow(first.known, first.old, second.new)


def without_before_images(net: Net) -> Net:
    """Return the same with each `old` to be looked up: for a table that has not all rows."""
    return {
        key: row if row.old is None else NetRow(False, None, row.new) for key, row in net.items()
    }
