"""Every error this project raises on purpose, as one tree; the class decides what happens next.

    TidegateError
    ├── ConfigError          refused before anything runs; the user changes something
    │   ├── Unsupported          a definition asks for what is not there, with line and column
    │   ├── SourceNotReady       the source lacks a setting, a right or a key
    │   ├── UnknownRelation      no table, view or pipeline of that name
    │   └── BackfillVersionChanged  a backfill began with one reader and is to go on with many
    ├── ConsistencyError     stop; running again gives the same answer
    │   ├── NegativeRowCount     more rows retracted from a group than it ever had
    │   ├── BarrierOutOfOrder    a barrier or a collection that breaks the chain
    │   ├── UnknownActor         a report from an actor the graph does not have
    │   ├── DuplicateCollect     an actor collected the same barrier twice
    │   ├── IllegalStep          an event that a machine's state does not know
    │   ├── ProgressWentBack     a reporter said less than before
    │   ├── WrongGeneration      a report of splits that were never dealt out
    │   ├── OffsetWentBackwards  a source position before the committed one
    │   ├── SourceBroken         changes of a source are lost; the way out is a repair
    │   │   ├── SlotAhead            the slot has passed what was committed
    │   │   ├── SlotGone             the slot was dropped behind our back, or has lost its WAL
    │   │   ├── SourceReplaced       another server answers where the source used to be
    │   │   └── RenewalUnfinished    a new slot was begun and is not recorded
    │   ├── EpochGone            an epoch that can no longer be read
    │   ├── RepairLost           differences were let go before the stream took them in
    │   ├── UpstreamOutOfStep    a view reads a view that has fallen out of step
    │   └── TableStopped         one table met an event it must not guess about
    ├── Fenced               this process is no longer the owner and must not write
    │   ├── TermOver             another owner has taken the graph
    │   ├── RelationEnded        what is worked on was dropped or replaced meanwhile
    │   └── AttemptRetired       the collector has given this attempt up
    └── TransientError       the same step may pass when tried again
        ├── LeaseHeld            somebody else owns the graph right now
        └── RepairWithdrawn      a repair went to another owner while an epoch took it in

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


class BackfillVersionChanged(ConfigError):
    """The backfill with one reader (v1) and that in parallel (v2) do not turn into each other."""

    def __init__(self, table: str, *, begun: int, asked: int) -> None:
        self.table, self.begun, self.asked = table, begun, asked
        way = "'0'" if begun == 1 else "1 or more"
        super().__init__(
            f"the backfill of {table} began as v{begun} and cannot go on as v{asked}; set "
            f"backfill.parallelism back to {way}, or make the table anew"
        )


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


class SourceBroken(ConsistencyError):
    """The stream cannot go on from what is committed: changes in between are lost."""

    def __init__(self, pipeline: str, why: str, *, other_way: str = "") -> None:
        self.pipeline, self.why = pipeline, why
        super().__init__(
            f"{why}; {other_way}`tidegate repair {pipeline}` makes a new slot, compares the tables "
            "with their source and writes what differs"
        )


class SlotAhead(SourceBroken):
    def __init__(self, pipeline: str, slot: str, *, confirmed: str, committed: str) -> None:
        self.slot, self.confirmed, self.committed = slot, confirmed, committed
        why = f"slot {slot} was confirmed up to {confirmed}, past the committed {committed}"
        super().__init__(pipeline, f"{why}: changes in between are gone from the source")


class SlotGone(SourceBroken):
    def __init__(self, pipeline: str, slot: str) -> None:
        self.slot = slot
        super().__init__(
            pipeline, f"slot {slot} is gone from the source, and with it the changes it kept"
        )


class SourceReplaced(SourceBroken):
    def __init__(self, pipeline: str, source: str, *, expected: str, found: str) -> None:
        self.source, self.expected, self.found = source, expected, found
        why = f"source {source} is another server than before"
        super().__init__(
            pipeline,
            f"{why} (identity {found}, expected {expected})",
            other_way="point the source back, or if it is to stay so: ",
        )


class RenewalUnfinished(SourceBroken):
    def __init__(self, pipeline: str, slot: str, why: str) -> None:
        self.slot = slot
        super().__init__(pipeline, f"slot {slot} is being made anew and that was cut short ({why})")


class EpochGone(ConsistencyError):
    def __init__(self, table: str, epoch: int, *, nearest: int | None) -> None:
        self.table, self.epoch, self.nearest = table, epoch, nearest
        way = f"the nearest readable one is {nearest}" if nearest else "none is readable yet"
        super().__init__(f"{table} cannot be read as of epoch {epoch}; {way}")


class RepairLost(ConsistencyError):
    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"what was found wrong with {table} no longer fits it: the table has changed; "
            "run the repair again"
        )


class TableStopped(ConsistencyError):
    def __init__(self, table: str, why: str) -> None:
        self.table, self.why = table, why
        super().__init__(f"table {table} is stopped: {why}")


class UpstreamOutOfStep(ConsistencyError):
    def __init__(self, view: str, upstream: str, why: str) -> None:
        self.view, self.upstream, self.why = view, upstream, why
        super().__init__(
            f"view {view} reads {upstream}, which fell out of step ({why}); it follows when "
            f"{upstream} is in step again"
        )


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


class RepairWithdrawn(TransientError):
    def __init__(self, repair: int) -> None:
        self.repair = repair
        super().__init__(f"repair {repair} was begun anew by another process; its rows are left")


def is_transient(error: BaseException) -> bool:
    """Say whether the same step may pass later, for errors of ops and of resources alike."""
    return bool(getattr(error, "transient", False))
