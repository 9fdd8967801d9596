"""Backfills and flushes as a Dagster user launches them, in this process, without a daemon."""

from collections import Counter

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from ops.backfill.progress import pipeline_progress
from orchestration import reading
from orchestration.keys import GRAPH_TAG, RANGE_END_TAG, RANGE_START_TAG, TERM_TAG
from tests.orchestration.conftest import ROWS, Shop

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def remote(spark_session: SparkSession, spark_remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs share the session whose end the fixture sees to."""
    monkeypatch.setenv("TIDEGATE_SPARK_REMOTE", spark_remote)


def materialize(
    shop: Shop, instance: dg.DagsterInstance, key: str, partitions: tuple[str, str] | None = None
) -> dg.ExecuteInProcessResult:
    definitions = shop.definitions
    tags = dict(zip((RANGE_START_TAG, RANGE_END_TAG), partitions or (), strict=False))
    return dg.materialize(
        list(definitions.assets or ()),
        selection=dg.AssetSelection.assets(dg.AssetKey.from_user_string(key)),
        resources=definitions.resources,
        instance=instance,
        tags=tags,
        raise_on_error=False,
    )


def check(shop: Shop, instance: dg.DagsterInstance, key: str) -> dg.AssetCheckEvaluation:
    definitions = shop.definitions
    result = dg.materialize(
        [*(definitions.assets or ()), *(definitions.asset_checks or ())],
        selection=dg.AssetSelection.checks_for_assets(dg.AssetKey.from_user_string(key)),
        resources=definitions.resources,
        instance=instance,
    )
    [evaluation] = result.get_asset_check_evaluations()
    return evaluation


def told(result: dg.ExecuteInProcessResult) -> Counter[str | None]:
    events = [e for e in result.all_events if e.is_step_materialization]
    return Counter(event.partition for event in events)


def test_table_and_view_by_hand(full_shop: Shop, instance: dg.DagsterInstance) -> None:
    first = materialize(full_shop, instance, "shop/orders/cdc_backfill", ("00", "03"))
    assert first.success
    assert told(first) == Counter(["00", "01", "02", "03"]), "each vnode exactly once"
    run = instance.get_run_by_id(first.run_id)
    assert run is not None and run.tags[GRAPH_TAG] == "shop/orders" and run.tags[TERM_TAG] == "1"

    early = materialize(full_shop, instance, "shop/revenue/snapshot_backfill", ("00", "15"))
    assert not early.success, "the table has been read in part, and nobody reads the rest"
    [failed] = [event for event in early.all_events if event.is_step_failure]
    said = failed.step_failure_data.user_failure_data
    assert said is not None and "shop/orders/cdc_backfill first" in str(said.description)

    rest = materialize(full_shop, instance, "shop/orders/cdc_backfill", ("04", "15"))
    assert told(rest) == Counter(f"{v:02d}" for v in range(4, 16))
    metadata = [
        event.step_materialization_data.materialization.metadata
        for result in (first, rest)
        for event in result.all_events
        if event.is_step_materialization
    ]
    assert sum(m["rows"].value for m in metadata) == ROWS
    assert all({"rows", "bytes", "seconds"} <= m.keys() for m in metadata)

    full_shop.run("UPDATE orders SET amount = 0 WHERE id <= 10; DELETE FROM orders WHERE id = 11")
    view = materialize(full_shop, instance, "shop/revenue/snapshot_backfill", ("00", "15"))
    assert view.success and told(view) == Counter(f"{v:02d}" for v in range(16))

    full_shop.run("INSERT INTO orders VALUES (5000, 'new', 7)")
    flush = materialize(full_shop, instance, "shop/revenue")
    assert flush.success
    [event] = flush.get_asset_materialization_events()
    shown = event.materialization.metadata
    assert shown["state"].value == "Done" and shown["epoch"].value > 0
    assert 0 <= shown["lag_seconds"].value < 60

    checked = check(full_shop, instance, "shop/orders")
    assert checked.passed and checked.metadata["rows"].value == ROWS

    deployment = full_shop.deployment
    assert pipeline_progress(deployment.store, "shop").settled
    kept = reading.rows(deployment, "orders").sort_by("id")
    assert [tuple(r.values()) for r in kept.to_pylist()] == full_shop.run(
        "SELECT id, region, amount FROM orders ORDER BY id"
    )
    summed = reading.rows(deployment, "revenue").sort_by("region")
    assert [tuple(r.values()) for r in summed.to_pylist()] == full_shop.run(
        "SELECT region, count(*), sum(amount) FROM orders GROUP BY region ORDER BY region"
    )

    again = materialize(full_shop, instance, "shop/revenue/snapshot_backfill", ("03", "03"))
    assert told(again) == Counter(["03"]), "asked again, it is told again and nothing is redone"
    assert materialize(full_shop, instance, "shop/orders").success
