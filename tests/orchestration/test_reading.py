"""What people read, by whatever door: the source's rows, several relations at one epoch."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import dagster as dg
import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

import tidegate
from ops.common.epoch import Epoch, unix_ms
from ops.common.errors import ConfigError, EpochGone, UnknownRelation
from orchestration import maintenance, reading, running
from orchestration.cli import main
from orchestration.keys import epoch_tag
from orchestration.local_run import LocalRun
from tests.orchestration.conftest import Shop
from tests.support.pipeline import SMALL

pytestmark = pytest.mark.spark
ORDERS = "SELECT id, region, amount FROM orders ORDER BY id"
REVENUE = "SELECT region, count(*), sum(amount) FROM orders GROUP BY region ORDER BY region"


@pytest.fixture(autouse=True)
def remote(spark_session: SparkSession, spark_remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs share the session whose end the fixture sees to."""
    monkeypatch.setenv("TIDEGATE_SPARK_REMOTE", spark_remote)
    monkeypatch.setenv("TIDEGATE_SPARK_CONF", json.dumps(SMALL))
    monkeypatch.setenv("TIDEGATE_RETENTION_SECONDS", "0")


def tuples(rows: pa.Table, key: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows.sort_by(key).to_pylist()]


@dg.asset(
    ins={
        "orders": dg.AssetIn(["shop", "orders"], input_manager_key="tidegate"),
        "revenue": dg.AssetIn(["shop", "revenue"], input_manager_key="tidegate"),
    }
)
def sums(orders: DataFrame, revenue: pa.Table) -> dict[str, Decimal]:
    [row] = orders.selectExpr("sum(amount) AS amount").collect()
    return {"orders": row.amount, "revenue": sum(revenue.column("amount").to_pylist())}


def test_every_door(
    full_shop: Shop, instance: dg.DagsterInstance, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = full_shop.deployment
    with LocalRun(deployment, "shop", tell=print) as local:
        local.wait_settled(on_progress=lambda _: None)
        first = running.flush(deployment, "shop")
        then = (full_shop.run(ORDERS), full_shop.run(REVENUE))
        with tidegate.held(["orders", "revenue"]) as old:
            assert old.epoch >= first
            full_shop.run("UPDATE orders SET amount = amount + 1, region = 'x' WHERE id % 9 = 0")
            last = running.flush(deployment, "shop")
            now = (full_shop.run(ORDERS), full_shop.run(REVENUE))

            # The epoch that is held stays what it was, whatever is folded meanwhile.
            maintenance.fold(deployment, "shop", owner="test")
            assert tuples(old.frames["orders"].toArrow(), "id") == then[0]
            assert tuples(old.frames["revenue"].toArrow(), "region") == then[1]
            with tidegate.held(["orders", "revenue"], last) as new:
                assert tuples(new.frames["orders"].toArrow(), "id") == now[0]
                assert tuples(new.frames["revenue"].toArrow(), "region") == now[1]

            # A time means the newest epoch at or before it; the old one is held, so it is there.
            moment = datetime.fromtimestamp(unix_ms(old.epoch) / 1000, UTC)
            for as_of in (moment, moment.replace(tzinfo=None).isoformat()):
                with tidegate.held(["shop.orders"], as_of) as again:
                    assert again.epoch == old.epoch
            with pytest.raises(ConfigError, match="no epoch at or before"):
                tidegate.read("orders", as_of=moment - timedelta(days=1))

        # Nobody holds it any more: the next fold takes it away, and the sentence names the newer.
        full_shop.run("INSERT INTO orders VALUES (7001, 'new', 1)")
        running.flush(deployment, "shop")
        maintenance.fold(deployment, "shop", owner="test")
    with pytest.raises(EpochGone) as gone:
        tidegate.read("orders", as_of=old.epoch)
    assert gone.value.nearest is not None
    assert str(gone.value.nearest) in str(gone.value)
    orders, revenue = tidegate.read(["orders", "revenue"], as_of=gone.value.nearest)
    assert orders.count() == len(full_shop.run(ORDERS)) and "region" in revenue.columns
    assert pins(full_shop) == 2
    tidegate.close()
    assert pins(full_shop) == 0

    check_command_line(full_shop, capsys, old.epoch)
    check_plain_delta(full_shop)
    check_io_manager(full_shop, instance)


def check_command_line(shop: Shop, capsys: pytest.CaptureFixture[str], gone: Epoch) -> None:
    capsys.readouterr()
    assert main(["read", "revenue", "orders", "--limit", "3"]) == 0
    said = capsys.readouterr().out
    assert said.count("as of 20") == 2 and said.count("(epoch ") == 2
    assert main(["read", "revenue", "--format", "json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(shop.run(REVENUE))
    assert main(["read", "orders", "--as-of", str(gone)]) == 1
    assert "the nearest readable one is" in capsys.readouterr().err
    assert main(["read", "orders", "--as-of", "soon"]) == 2
    assert main(["read", "orders", "revenue", "--format", "csv"]) == 2
    with pytest.raises(UnknownRelation):
        reading.find(shop.deployment, "nothing")


def check_plain_delta(shop: Shop) -> None:
    """The base opens with whatever reads Delta, and all bases carry one epoch."""
    deployment = shop.deployment
    paths = {name: deployment.lake.uri(f"shop/{name}/v1") for name in ("orders", "revenue")}
    stamps = {
        DeltaTable(p).history(1)[0]["userMetadata"].rpartition(" ")[2] for p in paths.values()
    }
    assert len(stamps) == 1, "one epoch"
    by_spark = deployment.spark().read.format("delta").load(paths["orders"]).toArrow()
    assert tuples(by_spark, "id") == shop.run(ORDERS)
    dataset = DeltaTable(paths["orders"]).to_pyarrow_dataset()  # noqa: F841  (DuckDB reads it)
    assert duckdb.sql("SELECT id, region, amount FROM dataset ORDER BY id").fetchall() == (
        shop.run(ORDERS)
    )


def check_io_manager(shop: Shop, instance: dg.DagsterInstance) -> None:
    definitions = shop.definitions
    done = dg.materialize(
        [*(definitions.assets or ()), sums],
        selection=[sums],
        instance=instance,
        resources={**(definitions.resources or {}), "io_manager": dg.mem_io_manager},
    )
    [(total,)] = shop.run("SELECT sum(amount) FROM orders")
    assert done.output_for_node("sums") == {"orders": total, "revenue": total}
    run = instance.get_run_by_id(done.run_id)
    assert run is not None and int(run.tags[epoch_tag("shop")]) > 0
    assert pins(shop) == 0, "nothing is held after the run"


def pins(shop: Shop) -> object:
    [(count,)] = shop.run("SELECT count(*) FROM pins WHERE owner LIKE 'reader %'")
    return count
