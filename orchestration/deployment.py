"""Everything one process needs, opened together: settings, control store, lake, definitions, Spark.

Definitions are read from their folder when they are asked for; no connection is needed for that.
Spark is started by the first who needs it.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from ops.backfill.failpoints import kill_at, no_failpoint
from ops.barrier_worker.lease import Term
from ops.common.errors import ConfigError
from ops.common.ports import Failpoint
from ops.common.schema import Column, DataType, Schema
from ops.common.table.merge import MAX_LOG_FILES
from ops.planner.apply import Described
from ops.planner.parse import load_pipelines
from ops.planner.plan import PipelinePlan, SourcePlan, TablePlan
from ops.planner.stored import Applied, applied_pipeline, is_masked, with_secrets_of
from resources.clock import SystemClock
from resources.control_store import ControlStore
from resources.delta import Delta
from resources.embedded.postgres import EmbeddedPostgres, RunningPostgres
from resources.lake import Lake
from resources.object_store import object_store
from resources.postgres import PostgresSource
from resources.settings import SecretStr, Settings
from resources.spark import close_session, open_session

CONTROL_DATABASE = "tidegate"


def read_pipelines(folder: Path) -> dict[str, PipelinePlan]:
    """Return the plans of all .sql files of a folder, by pipeline name; opens no connection."""
    texts = {p.stem: (str(p), p.read_text()) for p in sorted(folder.glob("*.sql"))}
    return load_pipelines(texts)


@dataclass
class Deployment:
    settings: Settings
    store: ControlStore
    lake: Lake
    embedded: RunningPostgres | None
    failpoint: Failpoint = no_failpoint
    clock: SystemClock = field(default_factory=SystemClock)
    open_spark: Callable[[Settings], SparkSession] = lambda settings: open_session(
        settings, "tidegate"
    )
    """How Spark is had; Dagster gives its own resource here."""
    on_lease: Callable[[str, Term], None] = lambda owner, term: None
    """Told of every lease this process takes."""
    max_log_files: int = MAX_LOG_FILES
    """A relation's log is merged when it has more files than this."""
    _spark: SparkSession | None = None
    _spark_lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def delta(self) -> Delta:
        return Delta(self.lake)

    @property
    def owner(self) -> str:
        return f"{socket.gethostname()}:{os.getpid()}"

    def spark(self) -> SparkSession:
        with self._spark_lock:
            if self._spark is None:
                self._spark = self.open_spark(self.settings)
            return self._spark

    def close_spark(self) -> None:
        with self._spark_lock:
            if self._spark is not None:
                close_session(self._spark)
                self._spark = None

    def pipelines(self) -> dict[str, PipelinePlan]:
        return read_pipelines(self.settings.pipelines)

    def pipeline(self, name: str) -> PipelinePlan:
        plans = self.pipelines()
        if name not in plans:
            known = ", ".join(sorted(plans)) or f"no .sql file is in {self.settings.pipelines}"
            raise ConfigError(f"no pipeline is called {name!r}; there are: {known}")
        return plans[name]

    def applied(self, name: str) -> Applied:
        """Return a pipeline as it was applied; masked passwords are taken from its file."""
        found = applied_pipeline(self.store, name)
        if not any(is_masked(source) for source in found.sources.values()):
            return found
        sources = {source.name: self.with_secrets(source) for source in found.sources.values()}
        return replace(found, sources=sources)

    def with_secrets(self, source: SourcePlan) -> SourcePlan:
        """Return a stored source with the password that its file has."""
        if not is_masked(source):
            return source
        plan = self.pipelines().get(source.pipeline, PipelinePlan(source.pipeline))
        written = next((s for s in plan.sources if s.name == source.name), None)
        return with_secrets_of(source, written)

    def source(self, plan: SourcePlan) -> PostgresSource:
        """Return the source's database; secrets are looked up here and nowhere earlier."""
        resolved = plan.resolved(lambda name: self.settings.secret(name).reveal())
        options = {key: str(value) for key, value in resolved.options.items()}
        conninfo: dict[str, str | int | SecretStr] = {
            "host": options["hostname"],
            "port": options.get("port", "5432"),
            "user": options["username"],
            "dbname": options["database.name"],
        }
        if "password" in options:
            conninfo["password"] = SecretStr(options["password"])
        if "ssl.mode" in options:
            conninfo["sslmode"] = options["ssl.mode"]
        return PostgresSource(conninfo)

    def describe(self, plan: PipelinePlan) -> Callable[[TablePlan], Described]:
        """Return what asks a table's source for its columns and key."""

        def describe_table(table: TablePlan) -> Described:
            source = self.source(plan.source(table.source))
            source.require_ready()
            wanted = None if table.columns is None else [c.name for c in table.columns]
            found = source.describe_table(
                table.external_schema,
                table.external_table,
                columns=wanted,
                excluded=table.excluded,
                text_numerics=table.text_numerics,
            )
            if table.snapshot_filter is not None:
                source.require_filter(
                    table.external_schema, table.external_table, table.snapshot_filter
                )
            columns = (Column(c.name, DataType.parse(c.type), c.nullable) for c in found.columns)
            schema = Schema(tuple(columns), found.key)
            types = {c.name: (c.type_oid, c.modifier) for c in found.columns}
            return Described(schema, found.oid, found.identity, found.unselected, types)

        return describe_table


@contextmanager
def open_deployment(settings: Settings) -> Iterator[Deployment]:
    """Open the control store (embedded unless another is named) and bring it up to date."""
    with ExitStack() as stack:
        embedded = None
        if settings.control_dsn is None:
            embedded = stack.enter_context(EmbeddedPostgres(settings.home).acquire())
            settings = settings.with_secrets(embedded.provided_secrets())
            dsn = embedded.ensure_database(CONTROL_DATABASE)
        else:
            dsn = settings.control_dsn
        store = ControlStore(dsn.reveal())
        stack.callback(store.close)
        store.migrate()
        failpoint: Failpoint = no_failpoint
        if settings.failpoint is not None:
            settings.home.mkdir(parents=True, exist_ok=True)
            failpoint = kill_at(settings.failpoint, settings.home / "failpoint")
        lake = Lake(settings.lake, object_store(settings))
        deployment = Deployment(settings, store, lake, embedded, failpoint)
        stack.callback(deployment.close_spark)
        yield deployment
