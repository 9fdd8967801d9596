"""What actors report to their graph.

A report about a barrier must be sent before the actor collects that barrier: the coordinator
draws them together when the last actor has collected.

Pure.
"""

from dataclasses import dataclass

from ops.common.barrier import Barrier


@dataclass(frozen=True, slots=True)
class ActorCollected:
    """All that belongs before the barrier is done; `output` goes into its commit."""

    actor: str
    barrier: Barrier
    output: object


@dataclass(frozen=True, slots=True)
class ActorFailed:
    actor: str
    error: BaseException


Event = ActorCollected | ActorFailed
