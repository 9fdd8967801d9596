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
    is_transient,
)
from ops.common.ports import Clock, Failpoint, Store
from ops.common.table.relation import Relation, Role, versions_of
from ops.planner.plan import SourcePlan, TablePlan

WAIT_SECONDS = 3600.0
BIND_SECONDS = 120.0


class StreamDoesNotAnswer(TransientError):
    """A running stream did not take in a new table; nothing was published."""


def prepare_source(
    store: Store,
    source: Source,
    plan: SourcePlan,
    tables: Sequence[tuple[TablePlan, Relation]],
    *,
    on_wait: Callable[[str], None],
    clock: Clock,
    failpoint: Failpoint,
) -> None:
    with store.lock(f"prepare {plan.pipeline}/{plan.name}", on_wait):
        stored = _stored(store, plan)
        ids = {relation.id for _, relation in tables}
        states = [r.state for r in versions_of(store, plan.pipeline) if r.id in ids]
        fresh = stored["identity"] is None
        if not fresh and "Waiting" not in states:
            return
        _await_bound(store, plan.pipeline, clock)
        if fresh:
            _note_origin(store, source, plan, failpoint)
        failpoint("prepare.before_publication")
        external = [(t.external_schema, t.external_table) for t, r in tables if r.role != Role.NEXT]
        source.ensure_publication(plan.publication, external)
        failpoint("prepare.after_publication")
        for table, relation in tables:
            if relation.role == Role.NEXT and relation.state == "Waiting":
                _publish_next(store, source, plan, table, relation, failpoint)
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


def _publish_next(
    store: Store,
    source: Source,
    plan: SourcePlan,
    table: TablePlan,
    relation: Relation,
    failpoint: Failpoint,
) -> None:
    """Publish what a new version reads; if that cannot be, that version alone stops."""
    name = (table.external_schema, table.external_table)
    try:
        failpoint("prepare.before_publication")
        source.ensure_publication(plan.publication, [name])
        failpoint("prepare.after_publication")
    except Exception as error:
        if is_transient(error):
            raise
        failpoint("build.before_stop")
        store.execute("stop_next", relation=relation.id, why=str(error))
        failpoint("build.after_stop")


def _note_origin(store: Store, source: Source, plan: SourcePlan, failpoint: Failpoint) -> None:
    """Write down what is there already: that is not ours, and stays when the source is dropped."""
    failpoint("prepare.before_origin")
    store.execute(
        "set_source_origin",
        pipeline=plan.pipeline,
        name=plan.name,
        publication=not source.has_publication(plan.publication),
        slot=source.slot_state(plan.slot) is None,
    )
    failpoint("prepare.after_origin")


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
    source.require_ready()
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


def stop_unpublished(
    store: Store,
    source: Source,
    plan: SourcePlan,
    tables: Sequence[tuple[TablePlan, Relation]],
    *,
    failpoint: Failpoint,
) -> dict[int, str]:
    """Stop the tables that somebody has taken out of the publication, or filtered there.

    Their changes since then were sent to nobody. One that waits is published before it is read.
    """
    begun = [(t, r) for t, r in tables if r.state not in ("Waiting", "Stopped")]
    names = [(t.external_schema, t.external_table) for t, _ in begun]
    found = source.unpublished(plan.publication, names)
    stopped = {
        relation.id: found[table.external_schema, table.external_table]
        for table, relation in begun
        if (table.external_schema, table.external_table) in found
    }
    for relation, why in stopped.items():
        failpoint("prepare.before_stop")
        store.execute("set_relation_state", relation=relation, state="Stopped", why=why)
        failpoint("prepare.after_stop")
    return stopped


def begin_anew(
    store: Store,
    source: Source,
    plan: SourcePlan,
    tables: Sequence[tuple[TablePlan, Relation]],
    *,
    failpoint: Failpoint,
) -> None:
    """Forget where the stream of a source was; what was read from it stops there.

    The caller owns the main graph, so that nobody reads the slot. A slot that Tidegate made is
    made again by `prepare_source`; one that was given is gone on with.
    """
    with store.lock(f"prepare {plan.pipeline}/{plan.name}"):
        stored = _stored(store, plan)
        failpoint("anew.before_forget")
        with store.transaction() as tx:
            tx.query("lock_pipeline", pipeline=plan.pipeline)
            tx.execute("reset_source", pipeline=plan.pipeline, name=plan.name)
            for _, relation in tables:
                if relation.state not in ("Waiting", "Stopped"):
                    why = f"the stream of {plan.name} was begun anew"
                    tx.execute("set_relation_state", relation=relation.id, state="Stopped", why=why)
        failpoint("anew.after_forget")
        slot = source.slot_state(plan.slot)
        if slot is not None and (stored["made_slot"] or slot.wal_status == "lost"):
            failpoint("anew.before_slot")
            source.drop_slot(plan.slot)
            failpoint("anew.after_slot")


def _stored(store: Store, plan: SourcePlan) -> dict[str, Any]:
    return store.query("select_source", pipeline=plan.pipeline, name=plan.name)[0]


def identity_of(source: Source) -> str:
    found = source.identity()
    return f"{found.system_identifier}/{found.timeline}"
