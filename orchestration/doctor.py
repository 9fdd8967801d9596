"""Is everything set up right? Each line says what was looked at, and what to do if it is not."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rich.console import Console

from ops.common.errors import TidegateError
from ops.planner.apply import Describe
from ops.planner.plan import TablePlan
from orchestration.deployment import Deployment, open_deployment, read_pipelines
from resources.embedded.jars import ensure_jars
from resources.embedded.java import find_java
from resources.errors import ResourceError
from resources.lake_probe import probe_arrow, probe_delta
from resources.settings import Settings
from resources.spark_probe import probe_spark

FREE_BYTES = 2 * 1024**3
SEVERAL_DRIVERS = (
    "Spark commits to Delta tables in an object store without put-if-absent, so that two drivers "
    "could write over each other; run all with `tidegate up`, or name the one Spark Connect "
    "server that all runs share in TIDEGATE_SPARK_REMOTE"
)


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    problem: str | None
    detail: str = ""


def doctor(settings: Settings) -> int:
    """Print what was found; 1 if anything needs to be done."""
    console = Console()
    found = 0
    for finding in _findings(settings):
        if finding.problem is None:
            console.print(f"[green]ok[/]    {finding.what}  [dim]{finding.detail}[/]")
        else:
            found += 1
            console.print(f"[red]to do[/] {finding.what}: {finding.problem}", soft_wrap=True)
    console.print("all is well" if not found else f"{found} to do")
    return 1 if found else 0


def _findings(settings: Settings) -> Iterator[Finding]:
    yield _tried("Java", lambda: str(find_java(settings).home))
    yield _tried("Spark's extra jars", lambda: f"{len(_jars(settings))} files")
    yield _disk(settings)
    definitions = _tried("definitions", lambda: ", ".join(read_pipelines(settings.pipelines)))
    yield definitions
    try:
        with open_deployment(settings) as deployment:
            yield Finding("control store", None, "embedded" if deployment.embedded else "given")
            yield from lake_findings(deployment)
            if definitions.problem is None:
                yield from _sources(deployment)
    except (TidegateError, ResourceError) as error:
        yield Finding("control store", str(error))


def lake_findings(deployment: Deployment) -> Iterator[Finding]:
    """Look at the lake with each of the three that use it."""
    lake = deployment.lake
    yield _tried(f"lake {lake.root} by pyarrow", lambda: probe_arrow(lake))
    yield _tried("lake by delta-rs", lambda: probe_delta(lake))
    yield _tried("lake by Spark", lambda: probe_spark(lake, deployment.spark()))
    if not lake.is_local:
        shared = deployment.settings.spark_remote is not None
        yield Finding("one Spark driver", None if shared else SEVERAL_DRIVERS)


def _sources(deployment: Deployment) -> Iterator[Finding]:
    for plan in deployment.pipelines().values():
        for source_plan in plan.sources:
            name = f"source {plan.name}.{source_plan.name}"
            try:
                problems = deployment.source(source_plan).problems()
            except (TidegateError, ResourceError) as error:
                yield Finding(name, str(error))
                continue
            for problem in problems:
                yield Finding(name, problem)
            if problems:
                continue
            yield Finding(name, None)
            for table in plan.tables:
                if table.source == source_plan.name:
                    yield _tried(
                        f"table {plan.name}.{table.name}",
                        partial(_key, deployment.describe(plan), table),
                    )


def _key(describe: Describe, table: TablePlan) -> str:
    return f"key ({', '.join(describe(table).schema.key)})"


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, None, look())
    except (TidegateError, ResourceError) as error:
        return Finding(what, str(error))


def _jars(settings: Settings) -> list[object]:
    return list(ensure_jars(settings, find_java(settings)))


def _disk(settings: Settings) -> Finding:
    settings.home.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.home).free
    problem = None if free >= FREE_BYTES else f"only {free / 1024**3:.1f} GiB free; make room"
    return Finding("disk", problem, f"{free / 1024**3:.0f} GiB free")
