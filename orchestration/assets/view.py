"""A materialized view, kept up to date by the changes of its upstream."""

import dagster as dg

from ops.planner.plan import ViewPlan
from orchestration.assets.flush import build_flush
from orchestration.keys import backfill_key, relation_key
from orchestration.metadata import definition_metadata


def build_view(view: ViewPlan) -> dg.AssetsDefinition:
    spec = dg.AssetSpec(
        relation_key(view),
        deps=[backfill_key(view)],
        group_name=view.pipeline,
        description=f"```sql\n{view.definition}\n```\n\nMaterializing it is a flush.",
        kinds={"spark", "deltalake"},
        metadata=definition_metadata(view.definition, view.vnode_count),
    )
    return build_flush(view, spec)
