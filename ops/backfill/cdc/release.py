"""Take down at the source what was set up for tables and sources that are no more.

    a dropped table     its entry in the publication, unless another version or table reads it too
    a dropped source    its slot, then its publication

Only what Tidegate has made is taken away: a publication or slot that was there before stays as it
is. All of it is done again until it is recorded, under the lock that `prepare` holds, so that
what is about to be read is not unpublished.

Pure.
"""

from collections.abc import Callable
from typing import Any, Protocol

from ops.common.ports import Failpoint, Store
from ops.planner.plan import SourcePlan, TablePlan
from ops.planner.stored import Applied, applied_pipeline, parse_stored


class Releasing(Protocol):
    """What a source must do beyond being read."""

    def drop_publication_table(self, name: str, schema: str, table: str) -> None: ...
    def drop_publication(self, name: str) -> None: ...
    def drop_slot(self, name: str) -> None: ...


Open = Callable[[SourcePlan], Releasing]


def release_tables(
    store: Store, pipeline: str, open_source: Open, *, failpoint: Failpoint
) -> list[str]:
    """Unpublish tables that are no more; return their names."""
    released: list[str] = []
    for row in store.query("select_unpublishable", pipeline=pipeline):
        table = _table(store, pipeline, row["definition"])
        with store.lock(f"prepare {pipeline}/{table.source}"):
            stored = store.query("select_source", pipeline=pipeline, name=table.source)
            gone = not stored or stored[0]["dropping"]
            applied = applied_pipeline(store, pipeline)
            if not gone and stored[0]["made_publication"] and not _is_read(applied, table):
                source = open_source(applied.sources[table.source])
                failpoint("release.before_publication_table")
                source.drop_publication_table(
                    stored[0]["publication"], table.external_schema, table.external_table
                )
                failpoint("release.after_publication_table")
                released.append(table.name)
            failpoint("release.before_record")
            store.execute("set_relation_unpublished", relation=row["id"])
            failpoint("release.after_record")
    return released


def release_sources(
    store: Store, pipeline: str, open_source: Open, *, failpoint: Failpoint
) -> list[str]:
    """Drop slot and publication of sources that are no more; return their names."""
    released: list[str] = []
    for row in store.query("select_dropped_sources", pipeline=pipeline):
        with store.lock(f"prepare {pipeline}/{row['name']}"):
            plan = parse_stored(pipeline, [row["definition"]]).sources[0]
            if row["identity"] is not None or row["is_begun"]:
                source = open_source(plan)
                if row["made_slot"]:
                    failpoint("release.before_slot")
                    source.drop_slot(row["slot"])
                    failpoint("release.after_slot")
                if row["made_publication"]:
                    failpoint("release.before_publication")
                    source.drop_publication(row["publication"])
                    failpoint("release.after_publication")
            failpoint("release.before_forget")
            store.execute("delete_source", pipeline=pipeline, name=row["name"])
            failpoint("release.after_forget")
            released.append(row["name"])
    return released


def _table(store: Store, pipeline: str, definition: str) -> TablePlan:
    rows: list[dict[str, Any]] = store.query("select_all_sources", pipeline=pipeline)
    texts = [row["definition"] for row in rows]
    return parse_stored(pipeline, [*texts, definition]).tables[0]


def _is_read(applied: Applied, table: TablePlan) -> bool:
    """Say whether a version that lives reads the same table of the source."""
    mine = (table.source, table.external_schema, table.external_table)
    return any(
        (other.source, other.external_schema, other.external_table) == mine
        for other, _ in applied.tables
    )
