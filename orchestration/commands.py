"""The words of the command line that look at or run a pipeline."""

import csv
import json
import sys
import time
from collections.abc import Sequence

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ops.backfill.progress import PipelineProgress, pipeline_progress
from ops.common.errors import ConfigError
from ops.common.table.relation import find_relation, relations_of
from ops.planner.apply import bound_view, plan_steps
from ops.planner.diff import render
from ops.planner.explain import explain
from orchestration import backfilling, reading, running
from orchestration.controls import require_applied
from orchestration.deployment import Deployment, open_deployment
from orchestration.local_run import LocalRun
from orchestration.screen import ProgressView, status_table
from resources.settings import Settings


def plan(settings: Settings, *, apply: bool) -> int:
    console = Console()
    with open_deployment(settings) as deployment:
        plans = deployment.pipelines()
        if not plans:
            raise ConfigError(f"there is no .sql file in {settings.pipelines}")
        for found in plans.values():
            steps = plan_steps(deployment.store, found)
            console.print(f"pipeline {found.name}", style="bold")
            console.print(render(steps), highlight=False)
            if apply:
                running.ensure_applied(deployment, found)
        console.print("applied" if apply else "nothing was done; `tidegate plan --apply` does it")
    return 0


def explain_view(settings: Settings, relation: str) -> int:
    with open_deployment(settings) as deployment:
        pipeline, name, _, is_table = _find_plan(deployment, relation)
        view = deployment.pipeline(pipeline).view(name)
        if is_table or view is None:
            raise ConfigError(f"{name} is a table; there is something to explain about views only")
        require_applied(deployment, pipeline)
        relations = relations_of(deployment.store, pipeline)
        upstream = find_relation(relations, view.upstream).schema
        print(explain(bound_view(view, relations), upstream))
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


def backfill(settings: Settings, relation: str, *, vnodes: Sequence[int] | None) -> int:
    console = Console()
    with open_deployment(settings) as deployment:
        pipeline, name, count, is_table = _find_plan(deployment, relation)
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
    settings: Settings, relations: Sequence[str], *, as_of: str | None, limit: int, form: str
) -> int:
    if form == "csv" and len(relations) > 1:
        raise ConfigError("csv has one header: name one table or view, or use --format json")
    with (
        open_deployment(settings) as deployment,
        reading.held(deployment, relations, as_of=as_of) as held,
    ):
        for name, frame in held.frames.items():
            _show(name, frame.limit(limit).toArrow(), held, form)
    return 0


def _show(name: str, rows: pa.Table, held: reading.Held, form: str) -> None:
    if form == "json":
        for row in rows.to_pylist():
            shown = row if len(held.frames) == 1 else {"relation": name, "row": row}
            print(json.dumps(shown, default=str))
    elif form == "csv":
        out = csv.writer(sys.stdout)
        out.writerow(rows.column_names)
        out.writerows(row.values() for row in rows.to_pylist())
    else:
        table = Table(*rows.column_names)
        for row in rows.to_pylist():
            table.add_row(*("" if v is None else str(v) for v in row.values()))
        console = Console()
        console.print(f"{name} {held.title}", highlight=False, soft_wrap=True)
        console.print(table)


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
    return {
        "pipeline": progress.pipeline,
        "epoch": progress.committed,
        "lag_ms": progress.lag_ms(int(time.time() * 1000)),
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
            }
            for r in progress.relations
        ],
    }
