"""Delta tables under the lake: made from files that are there already, and asked for versions.

Reading and merging is Spark's; this is what delta-rs does in milliseconds without a Spark job.
"""

import json
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from resources.lake import Lake

HISTORY = 50


class Delta:
    """`columns` of a table are (name, Arrow type) pairs; paths are relative to the lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def create(self, path: str, files: Sequence[str], schema: Any, *, stamp: str) -> None:
        """Make a table from exactly these files, all below `path`, in one commit."""
        assert isinstance(schema, pa.Schema)
        actions = []
        for file in files:
            rows, size = self._lake.sizes(file)
            stats = json.dumps({"numRecords": rows})
            relative = file.removeprefix(f"{path}/")
            actions.append(AddAction(relative, size, {}, int(time.time() * 1000), True, stats))
        create_table_with_add_actions(
            self._lake.uri(path),
            Schema.from_arrow(schema),
            actions,
            mode="error",
            commit_properties=CommitProperties(custom_metadata={"userMetadata": stamp}),
        )

    def latest(self, path: str) -> tuple[int, str | None] | None:
        """Return the newest version and its stamp, or None where there is no table."""
        try:
            table = DeltaTable(self._lake.uri(path))
        except TableNotFoundError:
            return None
        newest = table.history(1)[0]
        return table.version(), newest.get("userMetadata")

    def find(self, path: str, stamp: str) -> int | None:
        """Return the newest version that carries `stamp`."""
        table = DeltaTable(self._lake.uri(path))
        for entry in table.history(HISTORY):
            if entry.get("userMetadata") == stamp:
                return int(entry["version"])
        return None
