"""Every step of the protocols at which a process may die, on both sides of each external effect.

A test arms one by name; the process then kills itself there, as a power cut would.

Pure.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

FAILPOINTS = (
    "prepare.before_publication",
    "prepare.after_publication",
    "prepare.before_slot",
    "prepare.after_slot",
    "backfill.before_plan_splits",
    "backfill.after_plan_splits",
    "backfill.before_page_write",
    "backfill.after_page_write",
    "backfill.before_watermark",
    "backfill.after_watermark",
    "backfill.before_commit",
    "backfill.after_commit",
    "tick.before_inject",
    "tick.after_inject",
    "tick.before_log_write",
    "tick.after_log_write",
    "tick.before_commit",
    "tick.after_commit",
    "tick.before_confirm",
    "tick.after_confirm",
    "view.before_log_write",
    "view.after_log_write",
    "snapshot.before_pin",
    "snapshot.after_pin",
    "snapshot.before_commit",
    "snapshot.after_commit",
    "follow.before_commit",
    "follow.after_commit",
    "rejoin.before_take_over",
    "rejoin.after_take_over",
    "rejoin.before_commit",
    "rejoin.after_commit",
    "merge.before_write",
    "merge.after_write",
    "merge.before_commit",
    "merge.after_commit",
    "fold.before_create",
    "fold.after_create",
    "fold.before_delta",
    "fold.after_delta",
    "fold.before_record",
    "fold.after_record",
    "collect.before_retire",
    "collect.after_retire",
    "collect.before_delete",
    "collect.after_delete",
)


def no_failpoint(name: str) -> None:
    """What runs outside of tests; it still refuses a name nobody listed."""
    assert name in FAILPOINTS, name


def kill_at(armed: str, note: Path) -> Callable[[str], None]:
    """Return a failpoint that ends the process at `armed`, after writing its name to `note`."""
    if armed not in FAILPOINTS:
        raise ValueError(f"no failpoint is called {armed!r}")

    def failpoint(name: str) -> None:
        assert name in FAILPOINTS, name
        if name == armed:
            note.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)

    return failpoint
