"""Delta tables under the lake: made from files that are there already, and asked for versions.

Reading and merging is Spark's; this is what delta-rs does in milliseconds without a Spark job.
"""

import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from resources.lake import Lake

HISTORY = 50
STRAY_HOURS = 24


class Delta:
    """`columns` of a table are (name, Arrow type) pairs; paths are relative to the lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def create(self, path: str, files: Sequence[str], schema: Any, *, stamp: str, key: str) -> None:
        """Make a table from exactly these files, all below `path`, in one commit.

        Readers skip files by the bounds of the column `key`, where it is an integer.
        """
        assert isinstance(schema, pa.Schema)
        actions = []
        for file in files:
            rows, size = self._lake.sizes(file)
            bounds = self._lake.bounds(file, key)
            known = {"minValues": {key: bounds[0]}, "maxValues": {key: bounds[1]}} if bounds else {}
            stats = json.dumps({"numRecords": rows, **known})
            relative = file.removeprefix(f"{path}/")
            actions.append(AddAction(relative, size, {}, int(time.time() * 1000), True, stats))
        create_table_with_add_actions(
            self._lake.uri(path),
            Schema.from_arrow(schema),
            actions,
            mode="error",
            storage_options=self._lake.delta_options(),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": stamp}),
        )

    def latest(self, path: str) -> tuple[int, str | None] | None:
        """Return the newest version and its stamp, or None where there is no table."""
        try:
            table = self._open(path)
        except TableNotFoundError:
            return None
        newest = table.history(1)[0]
        return table.version(), newest.get("userMetadata")

    def named_by(self, path: str, version: int) -> set[str]:
        """Return the data files of a version, relative to the lake."""
        table = self._open(path, version)
        named = pa.table(table.get_add_actions()).column("path").to_pylist()
        return {f"{path}/{unquote(name)}" for name in named}

    def removed_before(self, path: str, versions: list[int]) -> list[str]:
        """Return the data files that none of these versions names, nor any that comes later.

        What no version ever named, a writer may still be about to: it must be a day old.
        """
        oldest = self._open(path, min(versions))
        gone = oldest.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
        stray = self._open(path).vacuum(
            retention_hours=STRAY_HOURS,
            dry_run=True,
            enforce_retention_duration=False,
            full=True,
            keep_versions=versions,
        )
        return [f"{path}/{unquote(name)}" for name in {*gone, *stray}]

    def find(self, path: str, stamp: str) -> int | None:
        """Return the newest version that carries `stamp`."""
        table = self._open(path)
        for entry in table.history(HISTORY):
            if entry.get("userMetadata") == stamp:
                return int(entry["version"])
        return None

    def settle(self, path: str, *, after: int, upto: int) -> None:
        """Make the versions in (after, upto] outlive a power cut; Spark does not."""
        if not self._lake.is_local:
            return
        log, live = f"{path}/_delta_log", set()
        for version in range(after + 1, upto + 1):
            for line in self._lake.read_text(f"{log}/{version:020}.json").splitlines():
                match json.loads(line):
                    case {"add": {"path": str(file)}}:
                        live.add(f"{path}/{unquote(file)}")
                    case {"remove": {"path": str(file)}}:
                        live.discard(f"{path}/{unquote(file)}")
        self._lake.settle([*live, *self._lake.list(log)])

    def _open(self, path: str, version: int | None = None) -> DeltaTable:
        options = self._lake.delta_options()
        return DeltaTable(self._lake.uri(path), version=version, storage_options=options)
