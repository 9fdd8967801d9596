"""Every name Dagster sees: asset keys, op and job names, pools, tags.

shop/orders/cdc_backfill -> shop/orders -> shop/revenue/snapshot_backfill -> shop/revenue
"""

import dagster as dg

from ops.planner.plan import TablePlan, ViewPlan

PIPELINE_TAG = "tidegate/pipeline"
STREAM_TAG = "tidegate/stream"
"""On a stream run, with the pipeline's name: at most one run per value is in progress."""
GRAPH_TAG = "tidegate/graph"
"""On a run that took the lease of a graph, with the graph's name."""
TERM_TAG = "tidegate/term"
"""On a run that took a lease, with the term it got."""
MAX_RETRIES_TAG = "dagster/max_retries"
RANGE_START_TAG = "dagster/asset_partition_range_start"
RANGE_END_TAG = "dagster/asset_partition_range_end"

BARRIER_SENSOR = "barriers"
_OWNER = "run:"


def epoch_tag(pipeline: str) -> str:
    """Return the tag of a run that reads `pipeline` through the IO manager: at which epoch."""
    return f"tidegate/epoch/{pipeline}"


def relation_key(relation: TablePlan | ViewPlan) -> dg.AssetKey:
    return dg.AssetKey([relation.pipeline, relation.name])


def upstream_key(view: ViewPlan) -> dg.AssetKey:
    return dg.AssetKey([view.pipeline, view.upstream])


def backfill_key(relation: TablePlan | ViewPlan) -> dg.AssetKey:
    kind = "cdc_backfill" if isinstance(relation, TablePlan) else "snapshot_backfill"
    return dg.AssetKey([relation.pipeline, relation.name, kind])


def op_name(key: dg.AssetKey, *suffix: str) -> str:
    return "__".join([*key.path, *suffix])


def backfill_pool(relation: TablePlan | ViewPlan) -> str:
    """One run at a time fills a relation; a second launch of the same work waits."""
    return op_name(backfill_key(relation))


def backfill_job_name(relation: TablePlan | ViewPlan) -> str:
    return op_name(backfill_key(relation), "job")


def stream_job_name(pipeline: str) -> str:
    return f"{pipeline}__stream"


def follow_job_name(view: ViewPlan) -> str:
    return op_name(relation_key(view), "follow")


def run_owner(run_id: str) -> str:
    """Return the name under which a run holds leases."""
    return _OWNER + run_id


def run_of_owner(owner: str | None) -> str | None:
    """Return the id of the run that is called `owner`; None for an owner outside Dagster."""
    return owner.removeprefix(_OWNER) if owner and owner.startswith(_OWNER) else None
