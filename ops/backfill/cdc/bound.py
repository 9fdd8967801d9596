"""How the stream decodes a relation: by what its source's table and the columns are known again.

Pure.
"""

from ops.backfill.cdc.evolve import Evolved, Origin
from ops.backfill.cdc.pgoutput import Binding
from ops.common.table.relation import Relation


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
