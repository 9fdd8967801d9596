"""Remove what no epoch names: the files of attempts that ended badly, and files replaced long ago.

    1. retire   in one transaction, attempts whose term is over or that were marked failed; none
                of them can commit from here on
    2. delete   only what lies in directories of retired attempts; listed again on every round,
                since a process that does not know it is dead may still write
    3. done     an attempt is forgotten when its directory was found empty and it is old

Pure.
"""

from dataclasses import dataclass

from ops.common.ports import Failpoint, Lake, Store

UNLISTED_SECONDS = 900.0
ZOMBIE_SECONDS = 3600.0


@dataclass(frozen=True)
class Collector:
    store: Store
    lake: Lake
    failpoint: Failpoint

    def collect(
        self,
        pipeline: str,
        *,
        unlisted_s: float = UNLISTED_SECONDS,
        zombie_s: float = ZOMBIE_SECONDS,
    ) -> int:
        """Run one round; return how many files were deleted."""
        self.failpoint("collect.before_retire")
        self.store.execute("retire_attempts", pipeline=pipeline)
        self.failpoint("collect.after_retire")
        deleted = 0
        for row in self.store.query("select_retired_attempts", pipeline=pipeline):
            orphans = self.lake.list(row["directory"])
            for path in orphans:
                deleted += self._delete(path)
            if not orphans:
                self.failpoint("collect.before_forget")
                self.store.execute(
                    "set_attempt_collected", attempt=row["id"], grace_seconds=zombie_s
                )
                self.failpoint("collect.after_forget")
        for row in self.store.query(
            "select_removable_files", pipeline=pipeline, grace_seconds=unlisted_s
        ):
            deleted += self._delete(row["path"])
            self.failpoint("collect.before_strike")
            self.store.execute("set_file_removed", file=row["id"])
            self.failpoint("collect.after_strike")
        return deleted

    def _delete(self, path: str) -> int:
        self.failpoint("collect.before_delete")
        self.lake.delete(path)
        self.failpoint("collect.after_delete")
        return 1
