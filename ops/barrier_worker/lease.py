"""Owning a graph: a lease with a term, kept by a thread, judged by the store's clock.

Whoever takes an expired lease raises the term; the old owner finds out at its next renewal or, at
the latest, when its commit touches no row.

Pure.
"""

import threading
from dataclasses import dataclass
from types import TracebackType

from ops.common.epoch import Epoch
from ops.common.errors import LeaseHeld, RelationEnded, TermOver, UnknownRelation, is_transient
from ops.common.ports import Failpoint, Statements, Store, unarmed


@dataclass(frozen=True, slots=True)
class Term:
    graph: str
    term: int
    committed: Epoch
    generation: int


def acquire(
    store: Store, graph: str, *, owner: str, seconds: float, failpoint: Failpoint = unarmed
) -> Term:
    """Take the graph for a new term, or raise LeaseHeld while somebody else has it."""
    failpoint("lease.before_acquire")
    rows = store.query("acquire_lease", graph=graph, owner=owner, seconds=seconds)
    failpoint("lease.after_acquire")
    if rows:
        return Term(graph, **rows[0])
    found = store.query("select_graph", graph=graph)
    if not found:
        raise UnknownRelation(graph, [])
    if found[0]["ended"]:
        raise RelationEnded(graph)
    raise LeaseHeld(graph, found[0]["owner"] or "another process", found[0]["seconds_left"] or 0.0)


def take_over(store: Store, graph: str, *, owner: str, failpoint: Failpoint = unarmed) -> Term:
    """End the present owner's term at once; only the main graph may, for a view it takes in."""
    failpoint("lease.before_take_over")
    rows = store.query("take_over_lease", graph=graph, owner=owner)
    failpoint("lease.after_take_over")
    return Term(graph, **rows[0])


def require_term(tx: Statements, graph: str, term: int) -> None:
    """Lock the graph's row; raise TermOver if it has another owner by now."""
    if tx.query("lock_graph", graph=graph)[0]["term"] != term:
        raise TermOver(graph, term)


class LeaseKeeper:
    """Renews a term until left; `check()` raises once the term is known to be over."""

    def __init__(
        self, store: Store, term: Term, *, seconds: float, failpoint: Failpoint = unarmed
    ) -> None:
        self.term = term
        self._store, self._seconds, self._failpoint = store, seconds, failpoint
        self._left = threading.Event()
        self._lost: BaseException | None = None
        self._thread = threading.Thread(target=self._keep, name=f"lease {term.graph}", daemon=True)

    def __enter__(self) -> "LeaseKeeper":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left.set()
        self._thread.join()
        if self._lost is None:
            self._failpoint("lease.before_release")
            try:
                self._store.execute("release_lease", graph=self.term.graph, term=self.term.term)
            except Exception as away:
                # It ends by itself; why we leave is the better thing to hear.
                if not is_transient(away):
                    raise
            self._failpoint("lease.after_release")

    def check(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _keep(self) -> None:
        while not self._left.wait(self._seconds / 4):
            try:
                self._failpoint("lease.before_renew")
                touched = self._store.execute(
                    "renew_lease", graph=self.term.graph, term=self.term.term, seconds=self._seconds
                )
                self._failpoint("lease.after_renew")
            except Exception as error:
                if is_transient(error):
                    # The store may be back before the lease is over; its clock decides.
                    continue
                self._lost = error
                return
            if touched != 1:
                self._lost = TermOver(self.term.graph, self.term.term)
                return
