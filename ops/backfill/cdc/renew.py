"""A source whose slot is lost, or that is another server now: a new slot, and tables to repair.

    1. open     in one transaction: no stream of the source may start; each live table is Repairing,
                with a gap after the committed epoch; a backfill that was under way begins anew
    2. slot     drop what is left of the old one, make a new one
    3. record   where it begins, and whose it is: the stream may start
    4. repair   table by table, by whoever runs the verify executor; each closes its own gap

Changes between the committed position and the new slot are in no stream. A table is compared with
its source as a whole (`verify`), which finds what they did. Run again after a crash, it goes
through all steps again: another slot, the same gap.

Pure.
"""

import json
from collections.abc import Callable, Sequence

from ops.backfill.cdc.offset import PostgresOffset, serialize_offset
from ops.backfill.cdc.ports import Source
from ops.backfill.cdc.prepare import identity_of
from ops.barrier_worker.lease import Term, require_term
from ops.common.ports import Failpoint, Statements, Store
from ops.common.table.relation import Relation, Role, versions_of
from ops.planner.plan import SourcePlan, TablePlan

WHOLE = ("Live", "Repairing")


def renew_source(
    store: Store,
    source: Source,
    plan: SourcePlan,
    tables: Sequence[TablePlan],
    *,
    term: Term,
    why: str,
    failpoint: Failpoint,
    tell: Callable[[str], None],
) -> None:
    """Make a new slot; `term` is that of the main graph, which nobody else runs meanwhile."""
    names = {t.name for t in tables}
    relations = [r for r in versions_of(store, plan.pipeline) if r.name in names]
    failpoint("gap.before_open")
    with store.transaction() as tx:
        require_term(tx, term.graph, term.term)
        tx.execute("set_source_renewing", pipeline=plan.pipeline, name=plan.name, why=why)
        for relation in relations:
            tx.query("lock_relation", relation=relation.id)
            _open(tx, relation, term, why)
    failpoint("gap.after_open")
    tell(f"{plan.slot}: {why}; making a new slot")
    failpoint("gap.before_drop")
    source.disconnect_reader(plan.slot)
    source.drop_slot(plan.slot)
    failpoint("gap.after_drop")
    failpoint("gap.before_slot")
    source.ensure_publication(
        plan.publication, [(t.external_schema, t.external_table) for t in tables]
    )
    start = source.ensure_slot(plan.slot)
    failpoint("gap.after_slot")
    offset = json.loads(serialize_offset(PostgresOffset(start)))
    identity = identity_of(source)
    failpoint("gap.before_record")
    with store.transaction() as tx:
        require_term(tx, term.graph, term.term)
        tx.execute(
            "set_source_renewed",
            pipeline=plan.pipeline,
            name=plan.name,
            identity=identity,
            offset=offset,
        )
    failpoint("gap.after_record")


def _open(tx: Statements, relation: Relation, term: Term, why: str) -> None:
    if relation.role == Role.NEXT:
        # Nobody reads it yet: it is begun again rather than repaired.
        tx.execute("set_relation_state", relation=relation.id, state="Stopped", why=why)
    elif relation.state in WHOLE:
        # What an event says was there before is not what the table holds, from here on.
        tx.execute("set_looks_up_old", relation=relation.id, looks_up=True)
        tx.execute("open_gap", relation=relation.id, after=term.committed, why=why)
        tx.execute("set_relation_state", relation=relation.id, state="Repairing", why=why)
    elif relation.state != "Stopped":
        # Pages in flight are refused by their generation; rows read and logged may be gone by now.
        tx.execute("begin_generation", graph=relation.graph)
        tx.execute("delete_splits", relation=relation.id)
        tx.execute("unlist_relation", relation=relation.id)
        tx.execute("set_relation_state", relation=relation.id, state="Waiting", why=None)


def close_gap(
    store: Store, relation: Relation, *, main_graph: str, term: Term, failpoint: Failpoint
) -> None:
    """Say that a table is its source's table again; `term` is that of whoever has repaired it."""
    failpoint("gap.before_close")
    with store.transaction() as tx:
        require_term(tx, term.graph, term.term)
        # No epoch is committed meanwhile: this is the first that holds all that was written.
        upto = tx.query("lock_graph", graph=main_graph)[0]["committed"]
        found = tx.query("lock_relation", relation=relation.id)[0]
        tx.execute("set_looks_up_old", relation=relation.id, looks_up=False)
        if found["state"] == "Repairing":
            tx.execute("close_gap", relation=relation.id, upto=upto)
            tx.execute("set_relation_state", relation=relation.id, state="Live", why=None)
    failpoint("gap.after_close")
