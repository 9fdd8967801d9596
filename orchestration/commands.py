"""The words of the command line that look at or run a pipeline."""

import csv
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ops.backfill.progress import PipelineProgress, pipeline_progress
from ops.common.errors import ConfigError
from ops.common.printed import printed_rows
from ops.common.table.relation import Role
from ops.planner.explain import explain
from ops.planner.stored import applied_pipeline
from orchestration import backfilling, lifecycle, reading, running
from orchestration.controls import require_applied
from orchestration.deployment import Deployment, open_deployment
from orchestration.local_run import LocalRun
from orchestration.partial_reading import held_partial
from orchestration.screen import ProgressView, status_table
from resources.settings import Settings


def plan(settings: Settings, *, apply: bool) -> int:
    console = Console()
    with open_deployment(settings) as deployment:
        plans = deployment.pipelines()
        if not plans:
            raise ConfigError(f"there is no .sql file in {settings.pipelines}")
        for found in plans.values():
            console.print(f"pipeline {found.name}", style="bold")
            for line in lifecycle.explain(deployment, found):
                console.print(line, highlight=False, markup=False, soft_wrap=True)
            if apply:
                lifecycle.apply(deployment, found)
        console.print("applied" if apply else "nothing was done; `tidegate plan --apply` does it")
    return 0


def explain_view(settings: Settings, relation: str) -> int:
    with open_deployment(settings) as deployment:
        pipeline, name, _, is_table = _find_plan(deployment, relation)
        if is_table:
            raise ConfigError(f"{name} is a table; there is something to explain about views only")
        require_applied(deployment, pipeline)
        applied = applied_pipeline(deployment.store, pipeline)
        view = applied.current(name)
        print(explain(applied.bound(view), applied.upstream(view).schema))
    return 0


def run(settings: Settings, pipeline: str, *, until_caught_up: bool, seconds: float | None) -> int:
    console = Console()
    with open_deployment(settings) as deployment:
        deployment.pipeline(pipeline)
        console.print("starting Spark …", style="dim")
        deployment.spark()
        started = time.monotonic()
        view = ProgressView(console)
        with LocalRun(deployment, pipeline, tell=console.print) as local, view.shown():
            local.wait_settled(on_progress=view.update)
            while not until_caught_up and (seconds is None or time.monotonic() - started < seconds):
                local.check()
                view.update(local.progress())
                time.sleep(0.5)
            if until_caught_up:
                running.flush(deployment, pipeline)
        now = int(time.time() * 1000)
        console.print(status_table(pipeline_progress(deployment.store, pipeline), now_ms=now))
    return 0


def backfill(
    settings: Settings, relation: str, *, vnodes: Sequence[int] | None, anew: bool = False
) -> int:
    console = Console()
    with open_deployment(settings) as deployment:
        if anew and (found := _find_source(deployment, relation)) is not None:
            pipeline, names = (
                found[0],
                lifecycle.begin_source_anew(deployment, *found, owner=deployment.owner),
            )
            console.print(f"{', '.join(names)}: built anew beside what is there")
            for _, table in deployment.applied(pipeline).tables:
                if table.name in names and table.role == Role.NEXT:
                    for _ in backfilling.backfill_table(
                        deployment,
                        pipeline,
                        table.name,
                        None,
                        owner=deployment.owner,
                        tell=console.print,
                    ):
                        pass
                    console.print(f"{table.name}: read", highlight=False)
            return 0
        pipeline, name, count, is_table = _find_plan(deployment, relation)
        if anew:
            built = lifecycle.build_anew(deployment, pipeline, name)
            console.print(
                f"{', '.join(built)}: built anew beside what is there, and swapped when live"
            )
        wanted = list(vnodes) if vnodes is not None else list(range(count))
        work = backfilling.backfill_table if is_table else backfilling.backfill_view
        done = work(deployment, pipeline, name, wanted, owner=deployment.owner, tell=console.print)
        for finished in done:
            console.print(f"vnode {finished.vnode}: {finished.rows:,} rows", highlight=False)
        console.print(
            f"{name}: {len(wanted)} vnodes are read; it goes live with the pipeline's next "
            "checkpoint"
        )
    return 0


def status(settings: Settings, *, as_json: bool, watch: bool) -> int:
    console = Console()
    with open_deployment(settings) as deployment:
        known = [p for p in deployment.pipelines() if _is_applied(deployment, p)]
        if as_json:
            print(json.dumps([_json(pipeline_progress(deployment.store, p)) for p in known]))
            return 0
        if not known:
            console.print("no pipeline is applied yet; `tidegate plan` shows what there is")
            return 0
        if not watch:
            now = int(time.time() * 1000)
            for pipeline in known:
                progress = pipeline_progress(deployment.store, pipeline)
                console.print(status_table(progress, now_ms=now))
            return 0
        view = ProgressView(console)
        with view.shown():
            while True:
                for pipeline in known:
                    view.update(pipeline_progress(deployment.store, pipeline))
                time.sleep(0.5)


def flush(settings: Settings, pipeline: str) -> int:
    with open_deployment(settings) as deployment:
        require_applied(deployment, pipeline)
        epoch = running.flush(deployment, pipeline)
        print(f"{pipeline} is committed up to epoch {epoch}")
    return 0


def read(
    settings: Settings,
    relations: Sequence[str],
    *,
    as_of: str | None,
    partial: bool,
    limit: int,
    form: str,
) -> int:
    if form == "csv" and len(relations) > 1:
        raise ConfigError("csv has one header: name one table or view, or use --format json")
    if partial and (as_of is not None or len(relations) != 1):
        raise ConfigError("--partial reads one table, as of now; leave the others and --as-of out")
    with open_deployment(settings) as deployment, ExitStack() as stack:
        if partial:
            held = stack.enter_context(held_partial(deployment, relations[0]))
        else:
            held = stack.enter_context(reading.held(deployment, relations, as_of=as_of))
        for name, frame in held.frames.items():
            _show(name, frame.limit(limit).toArrow(), held, form)
    return 0


def _show(name: str, rows: pa.Table, held: reading.Held, form: str) -> None:
    if form == "json":
        for row in printed_rows(rows):
            shown = row if len(held.frames) == 1 else {"relation": name, "row": row}
            print(json.dumps(shown, default=str))
    elif form == "csv":
        out = csv.writer(sys.stdout)
        out.writerow(rows.column_names)
        out.writerows(row.values() for row in printed_rows(rows))
    else:
        table = Table(*rows.column_names)
        for row in printed_rows(rows):
            table.add_row(*("" if v is None else str(v) for v in row.values()))
        console = Console()
        console.print(f"{name} {held.title}", highlight=False, soft_wrap=True)
        console.print(table)


def _find_source(deployment: Deployment, name: str) -> tuple[str, str] | None:
    pipeline, _, short = name.rpartition(".")
    found = [
        (plan.name, short)
        for plan in deployment.pipelines().values()
        if pipeline in ("", plan.name) and any(s.name == short for s in plan.sources)
    ]
    if len(found) > 1:
        raise ConfigError(f"{name} is ambiguous; write pipeline.{short}")
    return found[0] if found else None


def _find_plan(deployment: Deployment, name: str) -> tuple[str, str, int, bool]:
    pipeline, _, short = name.rpartition(".")
    found = [
        (plan.name, r.name, r.vnode_count, r in plan.tables)
        for plan in deployment.pipelines().values()
        if pipeline in ("", plan.name)
        for r in (*plan.tables, *plan.views)
        if r.name == short
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{name} is ambiguous; write pipeline.{short}")
    names = [r.name for p in deployment.pipelines().values() for r in (*p.tables, *p.views)]
    raise ConfigError(f"no table or view is called {name!r}; there are: {', '.join(names)}")


def _is_applied(deployment: Deployment, pipeline: str) -> bool:
    return bool(deployment.store.query("select_graph", graph=pipeline))


def _json(progress: PipelineProgress) -> dict[str, object]:
    now_ms = int(time.time() * 1000)
    return {
        "pipeline": progress.pipeline,
        "epoch": progress.committed,
        "lag_ms": progress.lag_ms(now_ms),
        "owner": progress.owner,
        "paused": progress.paused,
        "waiting_rows": progress.waiting_rows,
        "relations": [
            {
                "name": r.name,
                "kind": r.kind,
                "state": r.state,
                "why": r.why,
                "epoch": r.epoch,
                "rows_read": r.rows,
                "parts": r.parts,
                "parts_read": r.parts_read,
                "parts_passed": r.parts_passed,
                "progress": r.progress,
                "rows_per_s": r.rows_per_s,
                "parallelism": r.parallelism,
                "total_rows": r.total_rows,
                "speed": r.speed,
                "seconds_left": r.seconds_left,
                "lag_ms": r.lag_ms(now_ms),
                "version": r.label,
                "is_building": r.build is not None,
            }
            for r in (*progress.relations, *progress.builds)
        ],
        "ending": list(progress.ending),
    }
