"""Every step of the protocols at which a process may die, on both sides of each external effect.

A test arms one by name; the process then kills itself there, as a power cut would.

Pure.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

EFFECTS = (
    "apply.commit",
    "lease.acquire",
    "lease.renew",
    "lease.release",
    "lease.take_over",
    "stream.bind",
    "prepare.origin",
    "prepare.publication",
    "prepare.slot",
    "prepare.record",
    "prepare.stop",
    "anew.forget",
    "anew.slot",
    "attempt.register",
    "attempt.fail",
    "backfill.plan_splits",
    "backfill.page_write",
    "backfill.watermark",
    "backfill.commit",
    "tick.inject",
    "tick.log_write",
    "tick.commit",
    "tick.confirm",
    "flush.message",
    "view.log_write",
    "stage.delete",
    "snapshot.pin",
    "snapshot.commit",
    "follow.pin",
    "follow.commit",
    "follow.announce",
    "rejoin.commit",
    "repair.graph",
    "repair.begin",
    "repair.mark",
    "repair.page_write",
    "repair.write",
    "repair.stage",
    "repair.log_write",
    "gap.open",
    "gap.drop",
    "gap.slot",
    "gap.record",
    "gap.close",
    "merge.write",
    "merge.commit",
    "fold.pin",
    "fold.create",
    "fold.delta",
    "fold.record",
    "fold.unpin",
    "pin.take",
    "pin.renew",
    "pin.release",
    "vacuum.delete",
    "vacuum.strike",
    "swap.commit",
    "build.stop",
    "release.publication_table",
    "release.record",
    "release.slot",
    "release.publication",
    "release.forget",
    "drop.forget",
    "drop.delete",
    "drop.strike",
    "drop.record",
    "collect.retire",
    "collect.delete",
    "collect.forget",
    "collect.strike",
)


def _sides(effect: str) -> tuple[str, str]:
    group, _, step = effect.partition(".")
    return f"{group}.before_{step}", f"{group}.after_{step}"


FAILPOINTS = tuple(side for effect in EFFECTS for side in _sides(effect))


def no_failpoint(name: str) -> None:
    """What runs outside of tests; it still refuses a name nobody listed."""
    assert name in FAILPOINTS, name


def kill_at(armed: str, note: Path) -> Callable[[str], None]:
    """Return a failpoint that ends the process at `armed`, after writing its name to `note`."""
    if armed not in FAILPOINTS:
        raise ValueError(f"no failpoint is called {armed!r}")

    # Several threads may pass the same step at once: only one of them writes the note.
    turn = threading.Lock()

    def failpoint(name: str) -> None:
        assert name in FAILPOINTS, name
        if name == armed:
            turn.acquire()
            note.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)

    return failpoint
