"""Delete what no readable Delta version of a relation's base names.

The bases that are recorded are the versions that can still be asked for, and those that were
forgotten of late, or since the oldest pin was taken, may still be being read. A file that the
oldest of them does not name, and that was removed by it or before, is in none of the later ones
either: Delta's history only goes forward here.

Pure.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from ops.common.ports import Failpoint, Lake, Store
from ops.common.table.collect import UNLISTED_SECONDS
from ops.common.table.relation import Relation


class DeltaFiles(Protocol):
    """Paths are relative to the lake."""

    def removed_before(self, path: str, versions: list[int]) -> list[str]:
        """Return the data files that none of these versions names, nor any that comes later.

        What no version ever named, a writer may still be about to: it must be a day old.
        """
        ...

    def named_by(self, path: str, version: int) -> Collection[str]: ...


@dataclass(frozen=True)
class Vacuum:
    store: Store
    lake: Lake
    delta: DeltaFiles
    failpoint: Failpoint

    def vacuum(self, relation: Relation, *, grace_s: float = UNLISTED_SECONDS) -> int:
        """Run one round; return how many files were deleted."""
        kept = self.store.query("select_kept_versions", relation=relation.id, grace_seconds=grace_s)
        if not kept:
            return 0
        versions = [row["version"] for row in kept]
        # Delta remembers for a week what was removed, though it is long deleted.
        there = set(self.lake.list(relation.path))
        removed = [p for p in self.delta.removed_before(relation.path, versions) if p in there]
        for path in removed:
            self._delete(path)
        pages = self.store.query("select_folded_pages", relation=relation.id, grace_seconds=grace_s)
        if not pages:
            return len(removed)
        # Pages lie in the folders of their attempts, which Delta takes for hidden.
        named = self.delta.named_by(relation.path, versions[0])
        gone = [row for row in pages if row["path"] not in named]
        for row in gone:
            self._delete(row["path"])
            self.failpoint("vacuum.before_strike")
            self.store.execute("set_file_removed", file=row["id"])
            self.failpoint("vacuum.after_strike")
        return len(removed) + len(gone)

    def _delete(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        self.failpoint("vacuum.before_delete")
        self.lake.delete(path)
        # Hadoop's local file system keeps a checksum beside what it writes.
        self.lake.delete(f"{folder}/.{name}.crc")
        self.failpoint("vacuum.after_delete")
