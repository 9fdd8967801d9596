"""From a failure to the next start of a graph: a pure step machine.

                an actor fails               reset                 the last actor has ended,
                                                                   or 3 s are over
    Running ───────────────────▶ Suspended ───────────▶ Resetting ─────────────────────▶ Ended(root)
                                  │     ▲                │     ▲
                                  └─────┘ another fails  └─────┘ another fails or ends

A suspended graph commits nothing more. While it is reset its actors still say what they failed
with; of all that was said the weightiest is the cause, and of equals the first, since what others
say after it is mostly that it has gone. What comes next depends on the cause alone:

    the same step may pass later     again, after a wait that doubles up to 5 s
    it did not for five minutes      given up; so is everything else, at once

Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ops.common.errors import (
    ConfigError,
    ConsistencyError,
    Fenced,
    IllegalStep,
    is_transient,
)

GRACE_SECONDS = 3.0
FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
GIVE_UP_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Failure:
    actor: str
    error: BaseException


@dataclass(frozen=True, slots=True)
class Running:
    """Barriers are made; ends when an actor fails."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """An actor has failed, nothing is committed any more; ends when the reset begins."""

    failures: tuple[Failure, ...]


@dataclass(frozen=True, slots=True)
class Resetting:
    """The actors `left` have not ended yet; ends when none is left, or after the grace."""

    failures: tuple[Failure, ...]
    left: frozenset[str]


@dataclass(frozen=True, slots=True)
class Ended:
    """All that ran is gone; the next start forgets what is uncommitted."""

    root: Failure


State = Running | Suspended | Resetting | Ended


@dataclass(frozen=True, slots=True)
class Reset:
    """Every actor is told to end; these have not."""

    actors: frozenset[str]


@dataclass(frozen=True, slots=True)
class ActorEnded:
    actor: str


@dataclass(frozen=True, slots=True)
class GraceOver:
    """Whoever has not ended by now is not waited for."""


Event = Failure | Reset | ActorEnded | GraceOver


def step(state: State, event: Event) -> State:
    match state, event:
        case Running(), Failure():
            return Suspended((event,))
        case Suspended(failures), Failure():
            return Suspended((*failures, event))
        case Suspended(failures), Reset(actors):
            return _resetting(failures, actors)
        case Resetting(failures, left), Failure():
            return _resetting((*failures, event), left)
        case Resetting(failures, left), ActorEnded(actor):
            return _resetting(failures, left - {actor})
        case Resetting(failures, _), GraceOver():
            return Ended(root_cause(failures))
        case _:
            raise IllegalStep("recovery", state, event)


def _resetting(failures: tuple[Failure, ...], left: frozenset[str]) -> State:
    return Resetting(failures, left) if left else Ended(root_cause(failures))


def root_cause(failures: Sequence[Failure]) -> Failure:
    """Return the weightiest; of equals the first that was said."""
    return max(failures, key=lambda failure: score(failure.error))


def score(error: BaseException) -> int:
    """Return how much an error explains; a lost connection may be the echo of anything else."""
    match error:
        case Fenced():
            # Whatever else went wrong: this process must not go on.
            return 4
        case ConsistencyError() | ConfigError():
            return 3
        case _ if is_transient(error):
            return 1
        case _:
            return 2


@dataclass(frozen=True, slots=True)
class Again:
    """Start from the last commit after so many seconds."""

    wait_s: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    error: BaseException


Next = Again | GiveUp


@dataclass(frozen=True, slots=True)
class Patience:
    """How often in a row the graph has failed without a commit, and since when."""

    failures: int = 0
    since_s: float = 0.0

    def after(self, error: BaseException, *, now_s: float, moved: bool) -> tuple["Patience", Next]:
        """Return what to do about a failure; `moved` says that a commit came before it."""
        failures = 1 if moved else self.failures + 1
        since = now_s if failures == 1 else self.since_s
        after = Patience(failures, since)
        if not is_transient(error) or now_s - since >= GIVE_UP_SECONDS:
            return after, GiveUp(error)
        return after, Again(min(FIRST_WAIT_SECONDS * 2.0**failures, LONGEST_WAIT_SECONDS))
