"""Try the lake with each of the three that use it: write, list, put if absent, delete.

    pyarrow     writes, lists, reads back, deletes. It has no put-if-absent and needs none: each
                name it writes is new
    delta-rs    two writers commit the same version: the second must be refused
    Spark       in `spark_probe`

A probe leaves nothing. What it answers is for people; a refusal is one sentence with the next step.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from resources.errors import ConfigError
from resources.lake import Lake

FOLDER = "_doctor"
ROW = pa.table({"id": pa.array([1], pa.int64())})
RIVAL = pa.table({"id": pa.array([2], pa.int64())})


NO_DELETE = "let it delete there"


class LakeRefused(ConfigError):
    def __init__(self, who: str, lake: Lake, what: str, step: str) -> None:
        super().__init__(f"{who} {what} in {lake.root}; {step}")


def probe_arrow(lake: Lake) -> str:
    with probe_place(lake, "pyarrow", OSError) as place:
        path = f"{place}/probe.parquet"
        lake.write(path, ROW)
        if lake.list(place) != [path] or lake.sizes(path)[0] != 1:
            raise LakeRefused("pyarrow", lake, "does not find what it wrote", "see who deletes")
        lake.delete(path)
        if lake.list(place):
            raise LakeRefused("pyarrow", lake, "still finds what it deleted", NO_DELETE)
    return "write, list, delete"


def probe_delta(lake: Lake) -> str:
    with probe_place(lake, "delta-rs", OSError, DeltaError) as place:
        uri, options = lake.uri(place), lake.delta_options()
        write_deltalake(uri, ROW, storage_options=options)
        first, second = (DeltaTable(uri, storage_options=options) for _ in range(2))
        write_deltalake(first, RIVAL, mode="append")
        try:
            once = CommitProperties(max_commit_retries=0)
            write_deltalake(second, ROW, mode="append", commit_properties=once)
        except CommitFailedError:
            pass
        else:
            raise LakeRefused(
                "delta-rs",
                lake,
                "could write a version that was there already",
                "use a store with conditional writes (If-None-Match)",
            )
        write_deltalake(first, ROW, mode="overwrite")
        removed = first.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        if len(removed) < 2:
            raise LakeRefused("delta-rs", lake, "did not delete old files", NO_DELETE)
    return "write, list, put if absent, delete"


@contextmanager
def probe_place(lake: Lake, who: str, *failures: type[Exception]) -> Iterator[str]:
    """Give a folder of the probe's own; what its driver says of it becomes one sentence."""
    place = f"{FOLDER}/{uuid.uuid4().hex}"
    step = "check TIDEGATE_LAKE" + ("" if lake.is_local else " and the TIDEGATE_S3_* variables")
    try:
        yield place
        lake.delete_folder(place)
    except failures as error:
        reason = str(error).strip().splitlines()[0][:300]
        raise LakeRefused(who, lake, f"failed ({reason})", step) from None
