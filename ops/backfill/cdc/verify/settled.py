"""What a live table must hold where a source that never rests was read, and what is wrong with it.

    e0     pinned; then every transaction that runs at the source is awaited
    read   some rows of the source, over any time, page by page
    e1     an epoch that holds a message written into the stream after the last page

    right(k) at e1 = what the last event of k in (e0, e1] says, else the row read, else absent

The log of (e0, e1] is what the table shows for every key it names. So only the other keys can be
wrong, and they are now as they were at e0: the difference is between the rows read and the table as
of e0, less the keys that the log after e0 names. Whoever writes it leaves out what the log has come
to name by then; so it may be written late, and twice.

Why: a change before e0 was visible to each read, since its transaction was awaited; a change that a
read saw was committed before the message, and is in the log up to e1.

Pure.
"""

from collections.abc import Collection, Mapping

from ops.common.change import Row
from ops.common.table.net import Key, Net, NetRow

Rows = Mapping[Key, Row]


def right(read: Rows, log: Net) -> dict[Key, Row]:
    """Return what the table must hold at e1; `log` is that of (e0, e1]."""
    rows = {key: row for key, row in read.items() if key not in log}
    return rows | {key: event.new for key, event in log.items() if event.new is not None}


def difference(read: Rows, before: Rows, named: Collection[Key]) -> Net:
    """Return what is wrong, as changes; `before` is the table at e0, `named` the log's keys since.

    Same law as `compare.differences`.
    """
    pairs = {key: (before.get(key), read.get(key)) for key in before.keys() | read.keys()}
    return {
        key: NetRow(known=True, old=old, new=new)
        for key, (old, new) in pairs.items()
        if old != new and key not in named
    }


def still_wrong(found: Net, named: Collection[Key]) -> Net:
    """Return what of a difference may be written, when the log since e0 names these keys.

    Same law as `taking.not_named`.
    """
    return {key: row for key, row in found.items() if key not in named}
