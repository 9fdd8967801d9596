"""Which files and bases of a relation may be replaced or dropped, given its bases and pins.

    merge   log files of one range into one, if no pin and no base lies strictly inside the range
    unlist  after a fold, the log that neither the newest base nor an older pin needs; a pin at E
            needs the newest base <= E, and all the log after that base
    forget  a base whose log is gone is still readable at its own epoch: it is kept for a while,
            and for as long as that epoch is pinned

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


def next_log_start(bases: Sequence[Epoch], pins: Sequence[Epoch], log_start: Epoch) -> Epoch | None:
    """Return the base after which the log is kept; None if it is kept from before the first.

    A pin before `log_start` is on a base that stands alone: it needs no log.
    """
    newest = max(bases)
    needed = min([newest, *(pin for pin in pins if log_start <= pin < newest)])
    return max((base for base in bases if base <= needed), default=None)


def folded(files: Sequence[DataFile], start: Epoch) -> list[DataFile]:
    """Return the files that the base at `start` stands for."""
    return [f for f in files if f.epoch <= start or f.kind == "snapshot"]


def forgettable(
    bases: Sequence[Epoch], pins: Sequence[Epoch], log_start: Epoch, horizon: Epoch
) -> list[Epoch]:
    """Return the bases that nobody can ask for any more: alone, older than that, not pinned."""
    return [b for b in bases if b < log_start and b < horizon and b not in pins]
