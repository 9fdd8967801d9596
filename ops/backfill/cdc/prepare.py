"""Open the stream before anything is read: publication, slot, and nobody left who started earlier.

Idempotent, and run by whichever run needs it first. No control-store transaction is open
meanwhile: in the embedded server it would be one of those that are waited for. Waiting is done
again for as long as a table of the source has not begun its backfill, since a crash may have come
between the publication's change and the wait.

Pure.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from ops.backfill.cdc.offset import PostgresOffset, lsn_to_str, parse_offset, serialize_offset
from ops.backfill.cdc.ports import Source
from ops.common.errors import (
    RenewalUnfinished,
    SlotAhead,
    SlotGone,
    SourceReplaced,
    TransientError,
)
from ops.common.ports import Clock, Failpoint, Store
from ops.common.table.relation import relations_of
from ops.planner.plan import SourcePlan, TablePlan

WAIT_SECONDS = 3600.0
BIND_SECONDS = 120.0


class StreamDoesNotAnswer(TransientError):
    """A running stream did not take in a new table; nothing was published."""


def prepare_source(
    store: Store,
    source: Source,
    plan: SourcePlan,
    tables: Sequence[TablePlan],
    *,
    on_wait: Callable[[str], None],
    clock: Clock,
    failpoint: Failpoint,
) -> None:
    with store.lock(f"prepare {plan.pipeline}/{plan.name}", on_wait):
        stored = _stored(store, plan)
        names = {t.name for t in tables}
        relations = [r for r in relations_of(store, plan.pipeline) if r.name in names]
        fresh = stored["identity"] is None
        if not fresh and not any(r.state == "Waiting" for r in relations):
            return
        _await_bound(store, plan.pipeline, clock)
        failpoint("prepare.before_publication")
        external = [(t.external_schema, t.external_table) for t in tables]
        source.ensure_publication(plan.publication, external)
        failpoint("prepare.after_publication")
        identity = identity_of(source)
        if fresh:
            failpoint("prepare.before_slot")
            start = source.ensure_slot(plan.slot)
            failpoint("prepare.after_slot")
        source.await_running_transactions(
            lambda who: on_wait(f"waiting for transactions that began earlier: {who}"),
            WAIT_SECONDS,
        )
        if fresh:
            failpoint("prepare.before_record")
            store.execute(
                "set_source_prepared",
                pipeline=plan.pipeline,
                name=plan.name,
                identity=identity,
                offset=json.loads(serialize_offset(PostgresOffset(start))),
            )
            failpoint("prepare.after_record")


def _await_bound(store: Store, pipeline: str, clock: Clock) -> None:
    """Wait until a running stream takes the new tables' changes: only then may they be published.

    A stream that starts later reads the relations after it has its lease, and so knows them.
    """
    deadline = clock.monotonic() + BIND_SECONDS
    while unbound := store.query("select_unbound_tables", pipeline=pipeline):
        if clock.monotonic() > deadline:
            names = ", ".join(row["name"] for row in unbound)
            raise StreamDoesNotAnswer(
                f"the stream run of {pipeline} did not take in {names} for {BIND_SECONDS:.0f} s; "
                "restart it"
            )
        clock.sleep(0.1)


def committed_position(store: Store, source: Source, plan: SourcePlan) -> int:
    """Return where the stream must go on, after checking that the source still has all of it."""
    stored = _stored(store, plan)
    if stored["renewing"] is not None:
        raise RenewalUnfinished(plan.pipeline, plan.slot, stored["renewing"])
    found = identity_of(source)
    if found != stored["identity"]:
        expected = stored["identity"]
        raise SourceReplaced(plan.pipeline, plan.name, expected=expected, found=found)
    committed = parse_offset(json.dumps(stored["offset"])).lsn
    slot = source.slot_state(plan.slot)
    if slot is None or slot.wal_status == "lost":
        # Made again by nobody: what it kept is gone with it.
        raise SlotGone(plan.pipeline, plan.slot)
    confirmed = slot.confirmed_flush_lsn or 0
    if confirmed > committed:
        raise SlotAhead(
            plan.pipeline,
            plan.slot,
            confirmed=lsn_to_str(confirmed),
            committed=lsn_to_str(committed),
        )
    return committed


def _stored(store: Store, plan: SourcePlan) -> dict[str, Any]:
    return store.query("select_source", pipeline=plan.pipeline, name=plan.name)[0]


def identity_of(source: Source) -> str:
    found = source.identity()
    return f"{found.system_identifier}/{found.timeline}"
