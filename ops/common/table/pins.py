"""Hold relations readable as of one epoch for as long as somebody reads.

Pinning and whatever replaces files both lock the relation's row, and the pins of several relations
are taken in one transaction: what is pinned stays readable, as a whole. A reader's pin runs out by
itself when the reader is gone; one that lives renews it.

Pure.
"""

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ops.common.epoch import Epoch
from ops.common.errors import ConsistencyError, RelationEnded, is_transient
from ops.common.ports import Failpoint, Store, unarmed
from ops.common.table.relation import Contents, Relation, Role, contents

READER_SECONDS = 60.0


class PinLost(ConsistencyError):
    def __init__(self, epoch: Epoch) -> None:
        super().__init__(
            f"the reader was out of touch with the control store for so long that epoch {epoch} "
            "was let go; read again"
        )


@dataclass(frozen=True, slots=True)
class Pinned:
    """What each relation is made of as of the one epoch, by the relation's id."""

    epoch: Epoch
    contents: dict[int, Contents]


@contextmanager
def pinned(
    store: Store,
    relations: Sequence[Relation],
    *,
    main_graph: str,
    as_of: Epoch | None = None,
    seconds: float = READER_SECONDS,
    failpoint: Failpoint = unarmed,
) -> Iterator[Pinned]:
    """Hold `relations` of one pipeline at `as_of`, the newest committed epoch if it is None.

    Raises EpochGone, before anything is held, if one of them cannot be read there. Leaving the
    block raises PinLost if the epoch may have been let go while it was being read.
    """
    owner = f"reader {uuid.uuid4().hex}"
    failpoint("pin.before_take")
    held = _take(store, relations, owner, main_graph, as_of, seconds)
    failpoint("pin.after_take")
    keeper = _Keeper(store, owner, seconds, failpoint)
    keeper.start()
    try:
        yield held
    finally:
        keeper.leave()
        failpoint("pin.before_release")
        rows = store.query("release_pins", owner=owner)
        failpoint("pin.after_release")
    if sum(row["held"] for row in rows) < len(relations):
        raise PinLost(held.epoch)


def _take(
    store: Store,
    relations: Sequence[Relation],
    owner: str,
    main_graph: str,
    as_of: Epoch | None,
    seconds: float,
) -> Pinned:
    with store.transaction() as tx:
        # In one order, so that two readers never wait for each other.
        for relation in sorted(relations, key=lambda r: r.id):
            if tx.query("lock_relation", relation=relation.id)[0]["role"] == Role.OLD:
                # A new version was swapped in since somebody looked its name up.
                raise RelationEnded(relation.graph)
        # Read under the locks: no merge can pass over this epoch any more.
        newest = Epoch(tx.query("select_graph", graph=main_graph)[0]["committed"])
        epoch = newest if as_of is None else as_of
        found = {r.id: contents(tx, r, epoch) for r in relations}
        for relation in relations:
            tx.execute(
                "insert_reader_pin",
                relation=relation.id,
                owner=owner,
                epoch=epoch,
                seconds=seconds,
            )
    return Pinned(epoch, found)


class _Keeper:
    """Renews a reader's pins until it leaves, or until they have run out."""

    def __init__(self, store: Store, owner: str, seconds: float, failpoint: Failpoint) -> None:
        self._store, self._owner, self._seconds = store, owner, seconds
        self._failpoint = failpoint
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"pins of {owner}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        self._left.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._left.wait(self._seconds / 4):
            try:
                self._failpoint("pin.before_renew")
                renewed = self._store.execute(
                    "renew_pins", owner=self._owner, seconds=self._seconds
                )
                self._failpoint("pin.after_renew")
            except Exception as error:
                if is_transient(error):
                    continue
                raise
            if not renewed:
                return
