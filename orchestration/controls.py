"""The words of the command line that change a running pipeline: pause, resume, throttle, set.

Each writes down what is wanted. A stream run takes it with its next barrier, a backfill before its
next page; without either it holds from the next start on.
"""

import time

from ops.backfill.cdc.cdc_backfill import CdcBackfillExecutor
from ops.barrier_worker.live_settings import (
    parse_parallelism,
    parse_rows_per_s,
    parse_settings,
    show_interval,
)
from ops.common.errors import ConfigError, TransientError
from ops.common.table.relation import Relation, to_fill, versions_of
from ops.planner.apply import main_graph
from orchestration.deployment import Deployment, open_deployment
from resources.settings import Settings

ANSWER_SECONDS = 90.0


class NotCarriedYet(TransientError):
    def __init__(self, pipeline: str, word: str) -> None:
        super().__init__(
            f"{pipeline} is to {word}, and will; its stream run has made no checkpoint for "
            f"{ANSWER_SECONDS:.0f} s, `tidegate status` shows where it is"
        )


def pause(settings: Settings, pipeline: str) -> int:
    with open_deployment(settings) as deployment:
        print(set_paused(deployment, pipeline, paused=True))
    return 0


def resume(settings: Settings, pipeline: str) -> int:
    with open_deployment(settings) as deployment:
        print(set_paused(deployment, pipeline, paused=False))
    return 0


def throttle(settings: Settings, relation: str, rate: str | None, parallelism: str | None) -> int:
    if rate is None and parallelism is None:
        raise ConfigError("say how many rows a second, or --parallelism how many readers")
    rows_per_s = None if rate is None else parse_rows_per_s(rate)
    readers = None if parallelism is None else parse_parallelism(parallelism)
    pipeline, slash, table = relation.partition("/")
    if not slash or not table:
        raise ConfigError(f"write the table with its pipeline: shop/orders, not {relation!r}")
    with open_deployment(settings) as deployment:
        if rate is not None:
            print(set_throttle(deployment, pipeline, table, rows_per_s=rows_per_s))
        if parallelism is not None:
            print(set_parallelism(deployment, pipeline, table, readers=readers))
    return 0


def set_live(settings: Settings, pipeline: str, words: list[str]) -> int:
    wanted = parse_settings(words)
    with open_deployment(settings) as deployment:
        require_applied(deployment, pipeline)
        deployment.store.execute("set_pipeline_settings", pipeline=pipeline, **wanted.values())
        now = deployment.store.query("select_pipeline", pipeline=pipeline)[0]
        print(
            f"{pipeline}: a barrier every {show_interval(now['interval_ms'])}, "
            f"a checkpoint every {now['checkpoint_frequency']} barriers"
        )
    return 0


def set_paused(
    deployment: Deployment, pipeline: str, *, paused: bool, timeout_s: float = ANSWER_SECONDS
) -> str:
    """Write down what is wanted; wait for the barrier that carries it, if a stream runs."""
    require_applied(deployment, pipeline)
    store, word = deployment.store, "pause" if paused else "resume"
    command = None
    with store.transaction() as tx:
        tx.execute("set_paused", pipeline=pipeline, paused=paused)
        if _is_run(deployment, pipeline):
            command = tx.query("insert_command", pipeline=pipeline, kind=word)[0]["id"]
    deadline = time.monotonic() + timeout_s
    while command is not None and _is_run(deployment, pipeline):
        done = store.query("select_command", command=command)[0]["done_epoch"]
        if done is not None:
            return f"{pipeline} is {word}d at epoch {done}"
        if time.monotonic() > deadline:
            raise NotCarriedYet(pipeline, word)
        time.sleep(0.05)
    return f"{pipeline} is {word}d; no stream runs now"


def set_throttle(
    deployment: Deployment, pipeline: str, table: str, *, rows_per_s: int | None
) -> str:
    relation = _table(deployment, pipeline, table)
    deployment.store.execute(
        "set_rows_per_second", relation=relation.id, rows_per_second=rows_per_s
    )
    limit = f"at most {rows_per_s:,} rows/s" if rows_per_s else "as fast as it can"
    return f"the backfill of {pipeline}/{table} reads {limit}"


def set_parallelism(
    deployment: Deployment, pipeline: str, table: str, *, readers: int | None
) -> str:
    relation = _table(deployment, pipeline, table)
    splits = deployment.store.query("select_splits", relation=relation.id)
    if any(split["version"] == CdcBackfillExecutor.version for split in splits):
        raise ConfigError(
            f"{pipeline}/{table} is filled by one reader in key order "
            "(backfill.parallelism = '0'), which does not become many"
        )
    deployment.store.execute("set_parallelism", relation=relation.id, parallelism=readers)
    words = "as many readers as its definition says" if readers is None else f"{readers} readers"
    return f"the backfill of {pipeline}/{table} has {words}"


def _table(deployment: Deployment, pipeline: str, table: str) -> Relation:
    require_applied(deployment, pipeline)
    relation = to_fill(versions_of(deployment.store, pipeline), table)
    if relation.kind != "table":
        raise ConfigError(f"{table} is a view; only the backfill of a table can be throttled")
    return relation


def require_applied(deployment: Deployment, pipeline: str) -> None:
    if not deployment.store.query("select_graph", graph=main_graph(pipeline)):
        deployment.pipeline(pipeline)
        raise ConfigError(f"{pipeline} is not applied yet; `tidegate plan --apply` does it")


def _is_run(deployment: Deployment, pipeline: str) -> bool:
    rows = deployment.store.query("select_graph", graph=main_graph(pipeline))
    return bool(rows[0]["seconds_left"])
