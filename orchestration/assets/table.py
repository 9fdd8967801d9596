"""A table of the lake, kept equal to its source's by the stream run."""

import dagster as dg

from ops.planner.plan import TablePlan
from orchestration.assets.flush import build_flush
from orchestration.keys import backfill_key, relation_key
from orchestration.metadata import definition_metadata


def build_table(table: TablePlan) -> dg.AssetsDefinition:
    spec = dg.AssetSpec(
        relation_key(table),
        deps=[backfill_key(table)],
        group_name=table.pipeline,
        description=f"```sql\n{table.definition}\n```\n\nMaterializing it is a flush.",
        kinds={"postgres", "spark", "deltalake"},
        metadata=definition_metadata(table.definition, table.vnode_count),
    )
    return build_flush(table, spec)
