"""The deployment and Spark as Dagster resources: opened by the first who asks, once per process.

A code server asks on every sensor tick, so that what is open stays open until the process ends:
the embedded Postgres would otherwise be started and stopped every five seconds.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from multiprocessing.util import Finalize
from typing import Any, TypeVar

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from ops.barrier_worker.lease import Term
from ops.planner.apply import relation_graph
from ops.planner.plan import TablePlan, ViewPlan
from orchestration.deployment import Deployment, open_deployment
from orchestration.keys import GRAPH_TAG, TERM_TAG, run_owner
from resources.settings import Settings, load_settings
from resources.spark import close_session, is_connect, new_session, open_session

T = TypeVar("T")


class SparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy session with Tidegate's settings; starts nothing before it is used."""

    spark_config: dict[str, Any] = {}  # noqa: RUF012  (a pydantic field)
    """Further Spark settings; they win over those of TIDEGATE_SPARK_CONF."""

    def _init_session(self) -> None:
        if self._spark_session is None:
            settings = load_settings()
            conf = {**settings.spark_conf, **{k: str(v) for k, v in self.spark_config.items()}}
            shared = open_session(replace(settings, spark_conf=conf), "tidegate")
            self._spark_session = new_session(shared)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        # In-process, closing one session would end Spark for the others of this process.
        if self._spark_session is not None and is_connect(self._spark_session):
            close_session(self._spark_session)


class DeploymentResource(dg.ConfigurableResource):
    """Control store, lake and definitions, as the environment's TIDEGATE_* variables say."""

    spark: dg.ResourceDependency[SparkResource]

    def open(self) -> Deployment:
        """Return the deployment of this process; the first call opens it."""
        return opened_deployment(load_settings())

    def of_run(
        self, context: dg.OpExecutionContext | dg.AssetExecutionContext, graph: str
    ) -> tuple[Deployment, str]:
        """Return the deployment for a run that works on `graph`, and the run's name as an owner.

        The term it gets is written on the run, so that the sensor can tell when it is over.
        """
        return self._of_run(context, lambda taken: taken == graph)

    def of_relation_run(
        self,
        context: dg.OpExecutionContext | dg.AssetExecutionContext,
        relation: TablePlan | ViewPlan,
    ) -> tuple[Deployment, str]:
        """Return the same for a run that fills a relation, whichever version of it that is."""
        first = relation_graph(relation.pipeline, relation.name)
        return self._of_run(context, lambda taken: taken == first or taken.startswith(f"{first}/v"))

    def _of_run(
        self,
        context: dg.OpExecutionContext | dg.AssetExecutionContext,
        is_its_graph: Callable[[str], bool],
    ) -> tuple[Deployment, str]:
        run_id, instance = context.run_id, context.instance

        def on_lease(owner: str, term: Term) -> None:
            if is_its_graph(term.graph):
                instance.add_run_tags(run_id, {GRAPH_TAG: term.graph, TERM_TAG: str(term.term)})

        opened = replace(
            self.open(),
            open_spark=lambda settings: self.spark.spark_session,
            on_lease=on_lease,
            _spark=None,
            _spark_lock=threading.Lock(),
        )
        return opened, run_owner(run_id)


class _Opened:
    """What this process has open, by what it was opened with; closed when the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._deployments: dict[tuple[object, ...], Deployment] = {}
        # Unlike atexit, it also runs in the processes that Dagster starts for its runs.
        Finalize(self, self.close, exitpriority=100)

    def deployment(self, settings: Settings) -> Deployment:
        key = (settings.home, settings.lake, settings.pipelines, settings.control_dsn)
        with self._lock:
            if key not in self._deployments:
                self._deployments[key] = self._stack.enter_context(open_deployment(settings))
            return self._deployments[key]

    def keep(self, context: AbstractContextManager[T]) -> T:
        with self._lock:
            return self._stack.enter_context(context)

    def close(self) -> None:
        with self._lock:
            self._deployments.clear()
            self._stack.close()


_processes = _Opened()


def opened_deployment(settings: Settings) -> Deployment:
    """Return the deployment of this process; the first call opens it."""
    return _processes.deployment(settings)


def keep_open(context: AbstractContextManager[T]) -> T:
    """Enter a context that ends with the process, or with `close_opened`."""
    return _processes.keep(context)


def close_opened() -> None:
    """Let go of all that this process has open; it can be opened again."""
    _processes.close()
