"""What Spark left in a folder it wrote: the Parquet files with rows, and nothing else.

Markers, checksums and empty parts are named by no epoch: they go before the commit, since the
directory of a committed attempt is never looked through again.

Pure.
"""

from typing import NamedTuple

from ops.common.ports import Failpoint, Lake, unarmed


class Written(NamedTuple):
    path: str
    rows: int
    bytes: int


def keep_written(
    lake: Lake, folder: str, *, failpoint: Failpoint = unarmed, also_empty: bool = False
) -> list[Written]:
    """Return the files that hold rows, safe from a power cut, and delete the others.

    `also_empty` keeps Parquet files without rows: that there is one says something.
    """
    kept = []
    for path in sorted(lake.list(folder)):
        is_data = path.endswith(".parquet")
        rows, size = lake.sizes(path) if is_data else (0, 0)
        if rows or (is_data and also_empty):
            kept.append(Written(path, rows, size))
        else:
            failpoint("stage.before_delete")
            lake.delete(path)
            failpoint("stage.after_delete")
    # Spark leaves its files to the host's cache; the commit that names them is on disk at once.
    lake.settle([written.path for written in kept])
    return kept
