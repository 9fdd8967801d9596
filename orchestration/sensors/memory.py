"""What the barrier sensor remembers between ticks: for back-off only, never for correctness."""

import json
from dataclasses import dataclass, field

FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 300.0


def wait_after(failures: int) -> float:
    """Return how long to leave alone what has failed that many times in a row."""
    if failures <= 0:
        return 0.0
    return min(FIRST_WAIT_SECONDS * 2.0 ** (failures - 1), LONGEST_WAIT_SECONDS)


@dataclass
class Trouble:
    """A pipeline that cannot be applied: how often in a row, why, and when to look again."""

    failures: int
    sentence: str
    again_at: float


@dataclass
class Memory:
    troubles: dict[str, Trouble] = field(default_factory=dict)
    over_since: dict[str, float] = field(default_factory=dict)
    """Runs seen in progress although their term is over, by id."""

    @staticmethod
    def parse(cursor: str | None) -> "Memory":
        try:
            found = json.loads(cursor or "{}")
            troubles = {k: Trouble(**v) for k, v in found.get("troubles", {}).items()}
            return Memory(troubles, dict(found.get("over_since", {})))
        except (ValueError, TypeError, AttributeError):
            # Of another release, or edited by hand: it only costs a look too many.
            return Memory()

    def write(self) -> str:
        troubles = {k: vars(v) for k, v in self.troubles.items()}
        return json.dumps({"troubles": troubles, "over_since": self.over_since}, sort_keys=True)

    def failed(self, pipeline: str, why: str, now: float) -> Trouble:
        before = self.troubles.get(pipeline)
        failures = before.failures + 1 if before else 1
        trouble = Trouble(failures, why, now + wait_after(failures))
        self.troubles[pipeline] = trouble
        return trouble
