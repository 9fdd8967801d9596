"""Every error this project raises on purpose, as one tree; the class decides what happens next.

    TidegateError
    ├── ConfigError          refused before anything runs; the user changes something
    │   ├── Unsupported          a definition asks for what is not there, with line and column
    │   ├── SourceNotReady       the source lacks a setting, a right or a key
    │   └── UnknownRelation      no table, view or pipeline of that name
    ├── ConsistencyError     stop; running again gives the same answer
    │   ├── NegativeRowCount     more rows retracted from a group than it ever had
    │   ├── BarrierOutOfOrder    a barrier or a collection that breaks the chain
    │   ├── UnknownActor         a report from an actor the graph does not have
    │   ├── DuplicateCollect     an actor collected the same barrier twice
    │   ├── IllegalStep          an event that a machine's state does not know
    │   ├── ProgressWentBack     a reporter said less than before
    │   ├── WrongGeneration      a report of splits that were never dealt out
    │   ├── OffsetWentBackwards  a source position before the committed one
    │   ├── SlotAhead            the slot has passed what was committed: changes are gone
    │   ├── SlotGone             the slot was dropped behind our back
    │   ├── SourceReplaced       another server answers where the source used to be
    │   ├── EpochGone            an epoch that can no longer be read
    │   └── TableStopped         one table met an event it must not guess about
    ├── Fenced               this process is no longer the owner and must not write
    │   ├── TermOver             another owner has taken the graph
    │   ├── RelationEnded        what is worked on was dropped or replaced meanwhile
    │   └── AttemptRetired       the collector has given this attempt up
    └── TransientError       the same step may pass when tried again
        └── LeaseHeld            somebody else owns the graph right now

Pure.
"""

from typing import Any


class TidegateError(Exception):
    """Base of all; the message is a sentence for the user with the next step."""


class ConfigError(TidegateError):
    """Refused before anything runs."""


class Unsupported(ConfigError):
    def __init__(
        self, what: str, *, line: int | None = None, column: int | None = None, hint: str = ""
    ) -> None:
        self.what, self.line, self.column = what, line, column
        where = f"line {line}, column {column}: " if line is not None else ""
        super().__init__(f"{where}{what}" + (f"; {hint}" if hint else ""))


class SourceNotReady(ConfigError):
    """The source database lacks something; the message carries the statement to run."""


class UnknownRelation(ConfigError):
    def __init__(self, name: str, known: list[str]) -> None:
        self.name, self.known = name, known
        choices = ", ".join(sorted(known)) or "none is defined"
        super().__init__(f"no relation is called {name!r}; there are: {choices}")


class ConsistencyError(TidegateError):
    """Stop; running again gives the same answer."""


class NegativeRowCount(ConsistencyError):
    def __init__(self, *, view: str, group: tuple[Any, ...], count: int, epoch: int) -> None:
        self.view, self.group, self.count, self.epoch = view, group, count, epoch
        super().__init__(
            f"view {view}: group {group!r} would hold {count} rows at epoch {epoch}; "
            "its state does not match its input, rebuild the view"
        )


class BarrierOutOfOrder(ConsistencyError):
    """A barrier or a collection that breaks the chain of epochs."""


class UnknownActor(ConsistencyError):
    def __init__(self, actor: str, graph: str) -> None:
        self.actor, self.graph = actor, graph
        super().__init__(f"graph {graph} has no actor {actor!r}")


class DuplicateCollect(ConsistencyError):
    def __init__(self, actor: str, graph: str, prev: int) -> None:
        self.actor, self.graph, self.prev = actor, graph, prev
        super().__init__(f"{graph}: {actor} collected the barrier that closes {prev} twice")


class IllegalStep(ConsistencyError):
    def __init__(self, machine: str, state: object, event: object) -> None:
        self.machine, self.state, self.event = machine, state, event
        super().__init__(f"{machine}: {event!r} cannot happen in {state!r}")


class ProgressWentBack(ConsistencyError):
    """A reporter said less than it had said before."""


class WrongGeneration(ConsistencyError):
    def __init__(self, table: str, generation: int) -> None:
        self.table, self.generation = table, generation
        super().__init__(f"table {table} reported generation {generation}; the first one is 1")


class OffsetWentBackwards(ConsistencyError):
    def __init__(self, *, committed: int, found: int) -> None:
        self.committed, self.found = committed, found
        super().__init__(f"source position {found} lies before the committed {committed}")


def _anew(source: str) -> str:
    return (
        f"`tidegate backfill {source} --anew` reads its tables again, beside what is there, which "
        "stays readable until they are live"
    )


class SlotAhead(ConsistencyError):
    def __init__(self, source: str, slot: str, *, confirmed: str, committed: str) -> None:
        self.source, self.slot = source, slot
        self.confirmed, self.committed = confirmed, committed
        super().__init__(
            f"slot {slot} was confirmed up to {confirmed}, past the committed {committed}: changes "
            "in between are gone from the source (was the control store restored to an older "
            f"state?); {_anew(source)}"
        )


class SlotGone(ConsistencyError):
    """The slot was dropped, or the server has thrown away what it still needed."""

    def __init__(self, source: str, slot: str, *, lost: bool = False) -> None:
        self.source, self.slot = source, slot
        what = (
            "is lost, the server removed WAL it still needed (max_slot_wal_keep_size)"
            if lost
            else "is gone from the source, and with it the changes it kept"
        )
        super().__init__(f"slot {slot} {what}; {_anew(source)}")


class SourceReplaced(ConsistencyError):
    def __init__(self, source: str, *, expected: str, found: str) -> None:
        self.source, self.expected, self.found = source, expected, found
        super().__init__(
            f"source {source} is another server than before (identity {found}, expected {expected})"
            f"; point the source back, or {_anew(source)}"
        )


class EpochGone(ConsistencyError):
    def __init__(self, table: str, epoch: int, *, nearest: int | None) -> None:
        self.table, self.epoch, self.nearest = table, epoch, nearest
        way = f"the nearest readable one is {nearest}" if nearest else "none is readable yet"
        super().__init__(f"{table} cannot be read as of epoch {epoch}; {way}")


class TableStopped(ConsistencyError):
    def __init__(self, table: str, why: str) -> None:
        self.table, self.why = table, why
        super().__init__(f"table {table} is stopped: {why}")


class Fenced(TidegateError):
    """This process is no longer the owner and must not write."""


class TermOver(Fenced):
    def __init__(self, graph: str, term: int) -> None:
        self.graph, self.term = graph, term
        super().__init__(f"term {term} of {graph} is over: another process has taken it over")


class RelationEnded(Fenced):
    def __init__(self, graph: str) -> None:
        self.graph = graph
        super().__init__(f"{graph} was dropped or replaced meanwhile")


class AttemptRetired(Fenced):
    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        super().__init__(f"attempt {attempt} was retired; its files are being collected")


class TransientError(TidegateError):
    """The same step may pass when tried again; resources mark theirs with the same attribute."""

    transient = True


class LeaseHeld(TransientError):
    def __init__(self, graph: str, owner: str, seconds_left: float) -> None:
        self.graph, self.owner, self.seconds_left = graph, owner, seconds_left
        super().__init__(
            f"{graph} is being run by {owner}; its lease ends in {seconds_left:.0f} s "
            "unless renewed"
        )


def is_transient(error: BaseException) -> bool:
    """Say whether the same step may pass later, for errors of ops and of resources alike."""
    return bool(getattr(error, "transient", False))
