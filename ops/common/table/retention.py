"""Which files of a relation may be replaced or dropped, given its bases and pins.

    merge   log files of one range into one, if no pin and no base lies strictly inside the range
    drop    after a fold, what neither the newest base nor an older pin needs; a pin at E needs the
            newest base <= E, and all the log after that base

Pure.
"""

from collections.abc import Sequence

from ops.common.epoch import Epoch
from ops.common.table.relation import DataFile


def mergeable(files: Sequence[DataFile], pins: Sequence[Epoch], base: Epoch) -> list[DataFile]:
    """Return the longest run of log files after `base` with no pin strictly inside its range."""
    logs = sorted((f for f in files if f.kind == "log" and f.after >= base), key=lambda f: f.epoch)
    best: list[DataFile] = []
    run: list[DataFile] = []
    for file in logs:
        if run and any(run[0].after < pin < file.epoch for pin in pins):
            run = []
        run.append(file)
        if len(run) > len(best):
            best = list(run)
    return best


def oldest_needed(bases: Sequence[Epoch], pins: Sequence[Epoch]) -> Epoch | None:
    """Return the base below which nothing is needed; None if that reaches before the first."""
    newest = max(bases)
    needed = min([newest, *(pin for pin in pins if pin < newest)])
    return max((base for base in bases if base <= needed), default=None)


def folded(files: Sequence[DataFile], start: Epoch) -> list[DataFile]:
    """Return the files that the base at `start` stands for."""
    return [f for f in files if f.epoch <= start or f.kind == "snapshot"]
