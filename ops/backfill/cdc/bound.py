"""What the stream decodes: the tables of a source, with by what each and its columns are known.

Pure.
"""

from collections.abc import Sequence

from ops.backfill.cdc.evolve import Evolved, Origin
from ops.backfill.cdc.pgoutput import Binding, TableName
from ops.common.table.relation import Relation, find_relation
from ops.planner.plan import PipelinePlan

Tables = dict[TableName, tuple[Relation, Binding]]


def bindings(plan: PipelinePlan, source: str, relations: Sequence[Relation]) -> Tables:
    """Return the tables to decode: those of this source that are not stopped."""
    found: Tables = {}
    for table in plan.tables:
        relation = find_relation(relations, table.name)
        if table.source == source and relation.state != "Stopped":
            name = (table.external_schema, table.external_table)
            found[name] = (relation, binding(relation))
    return found


def binding(relation: Relation, found: Evolved | None = None) -> Binding:
    """Return how rows of a relation are read; `found` is what an older message says of them."""
    assert relation.origin is not None
    origin = Origin.from_json(relation.origin)
    return Binding(
        relation.schema,
        oid=origin.oid,
        identity=origin.identity,
        unselected=frozenset(origin.unselected),
        types=origin.types,
        names=origin.names if found is None else {**origin.names, **found.sent},
        absent=() if found is None else found.absent,
        order=tuple(sorted(origin.attnums, key=lambda name: origin.attnums[name])),
    )
