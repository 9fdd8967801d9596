"""One materialization per vnode, told as each is finished: what both kinds of backfill share."""

import time
from collections.abc import Iterable

import dagster as dg

from orchestration.metadata import VnodeDone, vnode_metadata
from orchestration.partitions import partition_of


def report_vnodes(
    context: dg.AssetExecutionContext,
    key: dg.AssetKey,
    finished: Iterable[VnodeDone],
    *,
    vnode_count: int,
    version: int,
) -> None:
    """Tell each vnode as it is finished, and none twice when the step is being retried."""
    told = _told(context, key) if context.retry_number else set()
    since = time.monotonic()
    for done in finished:
        partition, now = partition_of(done.vnode, vnode_count), time.monotonic()
        if partition not in told:
            context.log_event(
                dg.AssetMaterialization(
                    asset_key=key,
                    partition=partition,
                    metadata=vnode_metadata(done, seconds=now - since, version=version),
                )
            )
        since = now


def _told(context: dg.AssetExecutionContext, key: dg.AssetKey) -> set[str | None]:
    logs = context.instance.all_logs(
        context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION
    )
    events = [log.dagster_event for log in logs if log.dagster_event is not None]
    return {event.partition for event in events if event.asset_key == key}
