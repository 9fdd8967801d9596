"""Take down relations that were dropped or replaced: what the store has of them, then the files.

    1. wait     while a stream run still has it, somebody reads it, or what reads it is still there
    2. forget   in one transaction: the terms of its graphs end, and its splits, progress, pins and
                bases go; its files are listed no more
    3. delete   after the grace, the files that were listed, and whatever lies in its folder; that
                is looked at again until it has been empty for long: a process that does not know
                that it is dead may still write there

The row stays: its number is never used again.

Pure.
"""

from dataclasses import dataclass

from ops.common.ports import Failpoint, Lake, Store
from ops.common.table.collect import UNLISTED_SECONDS, ZOMBIE_SECONDS
from ops.common.table.relation import target_pin


@dataclass(frozen=True)
class Dropper:
    store: Store
    lake: Lake
    failpoint: Failpoint

    def forget(self, pipeline: str) -> list[str]:
        """Run step 2 for all that may go now; return their names."""
        gone: list[str] = []
        while found := self.store.query("select_droppable", pipeline=pipeline):
            for row in found:
                self.failpoint("drop.before_forget")
                with self.store.transaction() as tx:
                    for graph in (row["graph"], row["maintenance"]):
                        tx.execute("end_graph", graph=graph)
                    tx.query("lock_relation", relation=row["id"])
                    for statement in ("delete_splits", "delete_vnode_progress", "delete_all_bases"):
                        tx.execute(statement, relation=row["id"])
                    tx.execute("delete_pins_on", relation=row["id"])
                    for owner in (row["graph"], target_pin(row["graph"])):
                        tx.execute("delete_pins", owner=owner)
                    tx.execute("unlist_all_files", relation=row["id"])
                    tx.execute("set_relation_dropped", relation=row["id"])
                self.failpoint("drop.after_forget")
                gone.append(row["name"])
            # What reads another is gone now, so that the other may go.
        return gone

    def delete(
        self,
        pipeline: str,
        *,
        grace_s: float = UNLISTED_SECONDS,
        zombie_s: float = ZOMBIE_SECONDS,
    ) -> int:
        """Run step 3; return how many files were deleted."""
        deleted = 0
        dropped = self.store.query("select_dropped", pipeline=pipeline, grace_seconds=grace_s)
        for row in dropped:
            files = self.store.query("select_files_of", relation=row["id"])
            for file in files:
                deleted += self._delete(file["path"])
                self.failpoint("drop.before_strike")
                self.store.execute("set_file_removed", file=file["id"])
                self.failpoint("drop.after_strike")
            left = self.lake.list(row["path"])
            for path in left:
                deleted += self._delete(path)
            if not files and not left:
                self.failpoint("drop.before_record")
                self.store.execute(
                    "set_relation_removed", relation=row["id"], grace_seconds=zombie_s
                )
                self.failpoint("drop.after_record")
        return deleted

    def _delete(self, path: str) -> int:
        self.failpoint("drop.before_delete")
        self.lake.delete(path)
        self.failpoint("drop.after_delete")
        return 1
