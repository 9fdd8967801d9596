"""The barrier sensor, tick by tick, on a real control store and a real source."""

import json

import dagster as dg
import psycopg
import pytest

from ops.barrier_worker.lease import acquire
from orchestration import lifecycle, running
from orchestration.keys import GRAPH_TAG, STREAM_TAG, TERM_TAG, run_owner
from orchestration.sensors.memory import Memory, wait_after
from orchestration.sensors.terms import GRACE_SECONDS, find_dead_runs
from tests.orchestration.conftest import Shop

STREAM = "shop__stream"


def tick(
    shop: Shop, instance: dg.DagsterInstance, cursor: str | None = None
) -> tuple[list[str | None], str, str | None]:
    """Return the jobs asked for, the skip reason, and the cursor for the next tick."""
    definitions = shop.definitions
    with dg.build_sensor_context(
        instance=instance, cursor=cursor, definitions=definitions, resources=definitions.resources
    ) as context:
        found = definitions.resolve_sensor_def("barriers").evaluate_tick(context)
    asked = [request.job_name for request in found.run_requests or ()]
    return asked, found.skip_message or "", found.cursor


def started(
    shop: Shop, instance: dg.DagsterInstance, tags: dict[str, str], job: str = STREAM
) -> dg.DagsterRun:
    run = instance.create_run_for_job(
        shop.definitions.resolve_job_def(job),
        tags={STREAM_TAG: "shop", **tags},
        status=dg.DagsterRunStatus.STARTED,
    )
    return run


def lease_of(shop: Shop, graph: str = "shop") -> dict[str, object]:
    return shop.deployment.store.query("select_graph", graph=graph)[0]


def test_the_first_tick_applies_grants_and_starts_the_stream(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    asked, _, _ = tick(shop, instance)
    assert asked == [STREAM]
    store = shop.deployment.store
    assert store.query("select_grant", pipeline="shop")[0]["granted"]
    assert [r["name"] for r in store.query("select_relations", pipeline="shop")][:1] == ["orders"]


def test_an_active_run_is_left_alone_whatever_its_status(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    run = started(shop, instance, {})
    asked, why, _ = tick(shop, instance)
    assert asked == [] and run.run_id[:8] in why


def test_a_source_that_is_not_ready_is_said_once_and_left_alone_for_a_while(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    shop.run("ALTER TABLE orders RENAME TO elsewhere")
    asked, why, cursor = tick(shop, instance)
    assert asked == [] and "orders" in why
    asked, again, later = tick(shop, instance, cursor)
    assert asked == [] and "looking again in" in again and later == cursor, "nothing was tried"
    shop.run("ALTER TABLE elsewhere RENAME TO orders")
    memory = json.loads(cursor or "")
    memory["troubles"]["shop"]["again_at"] = 0
    asked, _, cursor = tick(shop, instance, json.dumps(memory))
    assert asked == [STREAM] and json.loads(cursor or "")["troubles"] == {}


def test_the_cursor_is_not_needed(shop: Shop, instance: dg.DagsterInstance) -> None:
    for cursor in (None, "", "garbage", '{"troubles": 3}', '{"troubles": {"shop": {"x": 1}}}'):
        assert tick(shop, instance, cursor)[0] == [STREAM]


def test_somebody_outside_dagster_runs_it(shop: Shop, instance: dg.DagsterInstance) -> None:
    tick(shop, instance)
    acquire(shop.deployment.store, "shop", owner="host:12", seconds=60)
    asked, why, _ = tick(shop, instance)
    assert asked == [] and "is being run by host:12" in why


def test_a_run_whose_lease_ran_out_is_failed_and_replaced(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    tick(shop, instance)
    run = started(shop, instance, {})
    store = shop.deployment.store
    term = acquire(store, "shop", owner=run_owner(run.run_id), seconds=60)
    instance.add_run_tags(run.run_id, {GRAPH_TAG: "shop", TERM_TAG: str(term.term)})
    assert tick(shop, instance)[0] == [], "it holds its lease: it lives"
    shop.run("UPDATE graphs SET lease_until = now() - interval '1 second' WHERE id = 'shop'")
    asked, _, _ = tick(shop, instance)
    assert asked == [STREAM]
    found = instance.get_run_by_id(run.run_id)
    assert found is not None and found.status is dg.DagsterRunStatus.FAILURE
    renewed = store.execute("renew_lease", graph="shop", term=term.term, seconds=60)
    assert renewed == 0, "one that only slept cannot go on"


def test_the_lease_of_a_run_that_ended_is_not_waited_for(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    tick(shop, instance)
    run = started(shop, instance, {})
    acquire(shop.deployment.store, "shop", owner=run_owner(run.run_id), seconds=600)
    instance.report_run_canceled(run)
    asked, _, _ = tick(shop, instance)
    assert asked == [STREAM] and not lease_of(shop)["seconds_left"]


def test_a_run_that_lost_its_term_is_given_time_to_end(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    tick(shop, instance)
    store = shop.deployment.store
    run = started(shop, instance, {GRAPH_TAG: "shop", TERM_TAG: "1"})
    for owner in (run_owner(run.run_id), "host:12"):
        acquire(store, "shop", owner=owner, seconds=60)
        shop.run("UPDATE graphs SET lease_until = now() - interval '1 second' WHERE id = 'shop'")
    records = instance.get_run_records(dg.RunsFilter(run_ids=[run.run_id]))
    memory = Memory()
    assert find_dead_runs(store, records, memory, 1000.0) == []
    assert find_dead_runs(store, records, memory, 1000.0 + GRACE_SECONDS - 1) == []
    [dead] = find_dead_runs(store, records, memory, 1000.0 + GRACE_SECONDS)
    assert dead.run.run_id == run.run_id and "term 1 of shop is over" in dead.why


def test_failed_runs_are_not_repeated_every_tick(shop: Shop, instance: dg.DagsterInstance) -> None:
    tick(shop, instance)
    for _ in range(3):
        instance.report_run_failed(started(shop, instance, {}))
    asked, why, _ = tick(shop, instance)
    assert asked == [] and "trying again in" in why
    assert [wait_after(n) for n in (0, 1, 2, 3, 20)] == [0, 5, 10, 20, 300]


def test_an_idle_pipeline_rests_until_somebody_wants_something(
    shop: Shop, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick(shop, instance)
    run = started(shop, instance, {})
    ended = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.RUN_SUCCESS.value, job_name=run.job_name
    )
    instance.report_dagster_event(ended, run.run_id)
    asked, why, _ = tick(shop, instance)
    assert asked == [] and "idle" in why
    shop.deployment.store.query("insert_command", pipeline="shop", kind="flush")
    assert tick(shop, instance)[0] == [STREAM]


@pytest.mark.parametrize(
    ("table", "view", "job"),
    [
        ("Waiting", "WaitingForUpstream", None),
        ("Live", "WaitingForUpstream", "shop__revenue__snapshot_backfill__job"),
        ("Live", "ConsumingSnapshot", "shop__revenue__snapshot_backfill__job"),
        ("Live", "ConsumingLogStore", "shop__revenue__follow"),
        ("Live", "Finishing", None),
        ("Live", "Done", None),
    ],
)
def test_views_are_filled_and_followed(
    shop: Shop, instance: dg.DagsterInstance, table: str, view: str, job: str | None
) -> None:
    started(shop, instance, {})
    tick(shop, instance)
    for name, state in (("orders", table), ("revenue", view)):
        shop.run(f"UPDATE relations SET state = '{state}' WHERE name = '{name}'")
    assert tick(shop, instance)[0] == ([job] if job else [])
    if job is None:
        return
    graph = "shop/revenue"
    acquire(shop.deployment.store, graph, owner="host:12", seconds=60)
    assert tick(shop, instance)[0] == [], "somebody is at it"


def test_a_paused_pipeline_is_not_filled(shop: Shop, instance: dg.DagsterInstance) -> None:
    started(shop, instance, {})
    tick(shop, instance)
    shop.run("UPDATE relations SET state = 'Live' WHERE name = 'orders'")
    store = shop.deployment.store
    store.execute("set_paused", pipeline="shop", paused=True)
    store.query("insert_command", pipeline="shop", kind="flush")
    asked, why, _ = tick(shop, instance)
    assert asked == [] and "`tidegate resume shop`" in why
    assert not store.query("select_grant", pipeline="shop")[0]["has_commands"], "it would wait"
    store.execute("set_paused", pipeline="shop", paused=False)
    assert store.query("select_grant", pipeline="shop")[0]["has_commands"]
    assert tick(shop, instance)[0] == ["shop__revenue__snapshot_backfill__job"]


def test_a_pipeline_that_cannot_be_applied_leaves_the_others_alone(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    text = (shop.folder / "shop.sql").read_text()
    other = text.replace("public.orders", "public.nowhere").replace("slot_", "slop_")
    (shop.folder / "broken.sql").write_text(other)
    asked, _, cursor = tick(shop, instance)
    assert asked == [STREAM] and list(json.loads(cursor or "")["troubles"]) == ["broken"]


def test_applying_again_changes_nothing(shop: Shop, instance: dg.DagsterInstance) -> None:
    tick(shop, instance)
    deployment = shop.deployment
    before = deployment.store.query("select_relations", pipeline="shop")
    running.ensure_applied(deployment, deployment.pipeline("shop"))
    assert deployment.store.query("select_relations", pipeline="shop") == before


def test_a_new_version_is_filled_without_being_asked_for_and_the_old_is_forgotten(
    shop: Shop, instance: dg.DagsterInstance
) -> None:
    tick(shop, instance)
    deployment = shop.deployment
    with psycopg.connect(shop.dsn, autocommit=True) as link:
        link.execute("UPDATE relations SET state = 'Live', live_since = 1 WHERE name = 'orders'")
    key = dg.AssetKey(["shop", "orders", "cdc_backfill"])
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition="00"))
    file = shop.folder / "shop.sql"
    file.write_text(file.read_text().replace("batch_size = '50'", "batch_size = '40'"))
    _, _, cursor = tick(shop, instance)
    known = deployment.store.query("select_relations", pipeline="shop")
    assert {r["version"] for r in known} == {1}, "a change is for `plan --apply`"
    assert instance.get_materialized_partitions(key) == {"00"}
    lifecycle.apply(deployment, deployment.pipeline("shop"))
    asked, why, _ = tick(shop, instance, cursor)
    assert "shop__orders__cdc_backfill__job" in asked, why
    assert instance.get_materialized_partitions(key) == set()
    now = {"version": 2}
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition="01", metadata=now))
    tick(shop, instance)
    assert instance.get_materialized_partitions(key) == {"01"}
