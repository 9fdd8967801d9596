"""The barrier sensor: what makes a pipeline go without being asked.

Each tick, for each pipeline:

    1. apply      bind and store what is new; if that cannot be done, say why and back off
    2. grant      barriers may be made until now + 15 s; no grant, no barrier
    3. bury       runs whose term is over are marked failed
    4. stream     start the stream run if none is active and nobody else holds the lease
    5. fill       views whose table is live, views out of step, versions that are being built

Switched off, the pipeline comes to rest at a checkpoint.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from ops.backfill.snapshot_backfill.phase import Phase
from ops.common.errors import TidegateError
from ops.common.table.relation import Relation, Role, to_fill, upstream_of, versions_of
from ops.planner.apply import main_graph
from ops.planner.plan import PipelinePlan, TablePlan, ViewPlan
from orchestration import running
from orchestration.deployment import Deployment
from orchestration.keys import (
    BARRIER_SENSOR,
    GRAPH_TAG,
    MAX_RETRIES_TAG,
    RANGE_END_TAG,
    RANGE_START_TAG,
    STREAM_TAG,
    backfill_job_name,
    backfill_key,
    follow_job_name,
    stream_job_name,
)
from orchestration.metadata import VERSION
from orchestration.opened import DeploymentResource
from orchestration.partitions import partition_of
from orchestration.sensors.memory import Memory, wait_after
from orchestration.sensors.terms import IN_PROGRESS, find_dead_runs, release_ended
from resources.errors import ResourceError

TICK_SECONDS = 5
GRANT_SECONDS = 15.0
SHORT_LIFE_SECONDS = 60.0
"""A stream run that failed sooner than this counts towards the back-off."""


def build_barrier_sensor(
    plans: Mapping[str, PipelinePlan], jobs: Sequence[Any]
) -> dg.SensorDefinition:
    @dg.sensor(
        name=BARRIER_SENSOR,
        jobs=jobs,
        minimum_interval_seconds=TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Grants barriers, starts the stream runs, brings views in step. "
        "Switched off, every pipeline comes to rest at a checkpoint.",
    )
    def barriers(
        context: dg.SensorEvaluationContext, deployment: DeploymentResource
    ) -> dg.SensorResult:
        memory = Memory.parse(context.cursor)
        opened = deployment.open()
        tick = Tick(opened, context.instance, memory, opened.clock.now_ms() / 1000)
        requests: list[dg.RunRequest] = []
        said: list[str] = []
        for plan in plans.values():
            for step in tick.pipeline(plan):
                if isinstance(step, dg.RunRequest):
                    requests.append(step)
                else:
                    said.append(f"{plan.name}: {step}")
        for sentence in said:
            context.log.info(sentence)
        skip = None if requests else dg.SkipReason("; ".join(said) or "no pipeline is defined")
        return dg.SensorResult(run_requests=requests, skip_reason=skip, cursor=memory.write())

    return barriers


Step = dg.RunRequest | str


@dataclass
class Tick:
    """One look at everything; yields runs to launch, and sentences for the tick's page."""

    deployment: Deployment
    instance: dg.DagsterInstance
    memory: Memory
    now: float

    def __post_init__(self) -> None:
        self._records = self.instance.get_run_records(dg.RunsFilter(statuses=list(IN_PROGRESS)))
        self._buried = False

    def pipeline(self, plan: PipelinePlan) -> Iterator[Step]:
        trouble = self.memory.troubles.get(plan.name)
        if trouble is not None and self.now < trouble.again_at:
            yield f"{trouble.sentence}; looking again in {trouble.again_at - self.now:.0f} s"
            return
        try:
            waiting = running.ensure_applied(self.deployment, plan)
        except (TidegateError, ResourceError) as error:
            yield str(error)
            self.memory.failed(plan.name, str(error), self.now)
            return
        self.memory.troubles.pop(plan.name, None)
        if waiting is not None:
            yield waiting
        self.deployment.store.execute("grant_barriers", pipeline=plan.name, seconds=GRANT_SECONDS)
        yield from self._bury()
        yield from self._stream(plan)
        yield from self._fillings(plan)

    def _bury(self) -> Iterator[str]:
        if self._buried:
            return
        self._buried = True
        for dead in find_dead_runs(self.deployment.store, self._records, self.memory, self.now):
            self.instance.report_run_failed(dead.run, f"This run is over: {dead.why}.")
            self._records = [r for r in self._records if r.dagster_run.run_id != dead.run.run_id]
            yield f"run {dead.run.run_id[:8]} is marked failed: {dead.why}"

    def _stream(self, plan: PipelinePlan) -> Iterator[Step]:
        active = self._active({STREAM_TAG: plan.name})
        if active:
            yield f"stream run {active[0].run_id[:8]} is {active[0].status.value.lower()}"
            return
        holder = release_ended(self.deployment.store, self.instance, main_graph(plan.name))
        if holder is not None:
            yield f"the stream is being run by {holder}"
            return
        why_not = self._why_not_yet(plan)
        if why_not is not None:
            yield why_not
            return
        yield dg.RunRequest(job_name=stream_job_name(plan.name))
        yield "a stream run is started"

    def _why_not_yet(self, plan: PipelinePlan) -> str | None:
        """Back off from failures, and leave a pipeline that went idle alone for a while."""
        if self.deployment.store.query("select_grant", pipeline=plan.name)[0]["has_commands"]:
            return None
        ended = self.instance.get_run_records(
            dg.RunsFilter(tags={STREAM_TAG: plan.name}), limit=8, order_by="id"
        )
        if not ended or ended[0].end_time is None:
            return None
        since = max(0.0, self.now - ended[0].end_time)
        last = ended[0].dagster_run
        if last.status is dg.DagsterRunStatus.SUCCESS and since < (wait := self._idle_wait()):
            return f"the stream was idle; looking again in {wait - since:.0f} s"
        failures = 0
        for record in ended:
            if not _failed_soon(record):
                break
            failures += 1
        # The first is replaced at once: a host died, or somebody killed it.
        left = wait_after(failures - 1) - since
        if left > 0:
            return f"{_failure_of(self.instance, last)}; trying again in {left:.0f} s"
        return None

    def _idle_wait(self) -> float:
        settings = self.deployment.settings
        # A run that never ends by itself was handed over: the next one follows at once.
        return 0.0 if settings.linger_seconds == float("inf") else settings.idle_commit_seconds

    def _fillings(self, plan: PipelinePlan) -> Iterator[Step]:
        """Fill views, and whatever is built beside a current version: that was asked for."""
        if self.deployment.store.query("select_pipeline", pipeline=plan.name)[0]["paused"]:
            yield f"it is paused; `tidegate resume {plan.name}` lets it go on"
            return
        versions = versions_of(self.deployment.store, plan.name)
        known = {relation.name for relation in versions}
        for fillable in (*plan.tables, *plan.views):
            if fillable.name in known:
                self._forget_older(fillable, to_fill(versions, fillable.name))
        for table in plan.tables:
            if table.name in known:
                relation = to_fill(versions, table.name)
                if relation.role == Role.NEXT and relation.state in ("Waiting", "Backfilling"):
                    yield from self._start(table, relation, _fill(table))
        for view in plan.views:
            if view.name not in known:
                continue
            relation = to_fill(versions, view.name)
            match Phase(relation.state):
                case Phase.WAITING | Phase.SNAPSHOT:
                    if upstream_of(versions, relation).is_whole:
                        yield from self._start(view, relation, _fill(view))
                case Phase.LOG:
                    job = follow_job_name(view)
                    yield from self._start(view, relation, dg.RunRequest(job_name=job))
                case _:
                    continue

    def _forget_older(self, plan: TablePlan | ViewPlan, relation: Relation) -> None:
        """What was read for another version is not there for this one: it is missing again."""
        if relation.version == 1:
            return
        key = backfill_key(plan)
        event = self.instance.get_latest_materialization_event(key)
        if event is None or event.asset_materialization is None:
            return
        told = event.asset_materialization.metadata.get(VERSION)
        if (1 if told is None else told.value) != relation.version:
            self.instance.wipe_assets([key])

    def _start(
        self, plan: TablePlan | ViewPlan, relation: Relation, request: dg.RunRequest
    ) -> Iterator[Step]:
        if self._is_left_alone(plan, relation):
            yield request
            yield f"{relation.label} is {relation.state}: a run is started"

    def _is_left_alone(self, plan: TablePlan | ViewPlan, relation: Relation) -> bool:
        """Say whether nobody works on a relation, nor has just failed to."""
        if release_ended(self.deployment.store, self.instance, relation.graph) is not None:
            return False
        key, jobs = backfill_key(plan), [backfill_job_name(plan)]
        if isinstance(plan, ViewPlan):
            jobs.append(follow_job_name(plan))
        for record in self._records:
            run = record.dagster_run
            if run.job_name in jobs or key in (run.asset_selection or ()):
                return False
        last = self.instance.get_run_records(
            dg.RunsFilter(tags={GRAPH_TAG: relation.graph}), limit=1
        )
        if not last or last[0].dagster_run.status is not dg.DagsterRunStatus.FAILURE:
            return True
        return self.now - (last[0].end_time or self.now) >= SHORT_LIFE_SECONDS

    def _active(self, tags: Mapping[str, str]) -> list[dg.DagsterRun]:
        runs = [record.dagster_run for record in self._records]
        return [r for r in runs if all(r.tags.get(k) == v for k, v in tags.items())]


def _fill(plan: TablePlan | ViewPlan) -> dg.RunRequest:
    count = plan.vnode_count
    return dg.RunRequest(
        job_name=backfill_job_name(plan),
        tags={
            RANGE_START_TAG: partition_of(0, count),
            RANGE_END_TAG: partition_of(count - 1, count),
            MAX_RETRIES_TAG: "0",
        },
    )


def _failed_soon(record: dg.RunRecord) -> bool:
    if record.dagster_run.status is not dg.DagsterRunStatus.FAILURE:
        return False
    lived = (record.end_time or 0) - (record.start_time or record.end_time or 0)
    return lived < SHORT_LIFE_SECONDS


def _failure_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Return the sentence the run failed with."""
    failed = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    for log in reversed(failed):
        event = log.dagster_event
        if event is not None and event.is_step_failure:
            said = event.step_failure_data.user_failure_data
            error = event.step_failure_data.error
            if said is not None and said.description:
                return said.description
            if error is not None:
                root = error.cause or error
                return root.message.strip().splitlines()[0]
    return f"stream run {run.run_id[:8]} has failed"
