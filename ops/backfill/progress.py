"""Where a pipeline is: each table and view with its state, rows, splits, epoch and lag.

Read from the control store alone, so that it is the same for the command line, Dagster and tests.

Pure.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ops.barrier_manager.cdc_progress import CdcProgress
from ops.barrier_manager.progress import ConsumingLogStore, ConsumingSnapshot, DoneLogStore
from ops.barrier_worker.tracker import CdcTableTracker, CreateMviewProgressTracker
from ops.common.epoch import ZERO, Epoch, unix_ms
from ops.common.ports import Statements
from ops.common.table.relation import Relation, Role, label, versions_of


@dataclass(frozen=True, slots=True)
class RelationProgress:
    """`parts` are splits of a table, vnodes of a view; `epoch` is None before the first commit."""

    name: str
    kind: str
    state: str
    why: str | None
    epoch: Epoch | None
    rows: int
    parts: int | None
    parts_read: int
    parts_passed: int
    settled: bool
    """Live, or in step: nothing of a backfill is left to do."""
    progress: str | None = None
    """How far it is, for people; None where that is not known."""
    rows_per_s: int | None = None
    """The limit a user has set for its backfill."""
    label: str = ""
    """Tells a version from the others of its name."""
    build: int | None = None
    """The build it belongs to, if it is not what its name means yet."""
    parallelism: int | None = None
    """How many readers a user has asked for; None: as many as its definition says."""
    total_rows: int | None = None
    """About how many rows there are to read; None where nobody counted, or too few."""
    speed: float | None = None
    """Rows a second that were committed lately; None while nothing is read."""

    @property
    def seconds_left(self) -> float | None:
        """When the last row will be read, at this speed; None where that cannot be said."""
        if self.settled or self.total_rows is None or not self.speed:
            return None
        return (self.total_rows - self.rows) / self.speed

    def lag_ms(self, now_ms: int) -> int | None:
        return None if self.epoch is None else now_ms - unix_ms(self.epoch)


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    pipeline: str
    committed: Epoch
    owner: str | None
    relations: tuple[RelationProgress, ...]
    paused: bool = False
    waiting_rows: int = 0
    """Rows the sources have gathered since the last checkpoint."""
    builds: tuple[RelationProgress, ...] = ()
    """Versions that are being built beside the current ones."""
    ending: tuple[str, ...] = ()
    """Labels of what was dropped or replaced and is not taken down yet."""

    @property
    def settled(self) -> bool:
        """Nothing will change by itself: a build that goes on will be swapped in."""
        return all(r.settled or r.state == "Stopped" for r in self.relations) and not any(
            all(r.state != "Stopped" for r in build) for build in self._builds()
        )

    def _builds(self) -> list[list[RelationProgress]]:
        found: dict[int | None, list[RelationProgress]] = {}
        for relation in self.builds:
            found.setdefault(relation.build, []).append(relation)
        return list(found.values())

    def lag_ms(self, now_ms: int) -> int | None:
        return now_ms - unix_ms(self.committed) if self.committed else None


def pipeline_progress(store: Statements, pipeline: str) -> PipelineProgress:
    graphs = {row["id"]: row for row in store.query("select_graphs", pipeline=pipeline)}
    main = graphs[pipeline]
    versions = [r for r in versions_of(store, pipeline) if r.kind != "state"]
    controls = store.query("select_pipeline", pipeline=pipeline)[0]
    backfills = {
        row["id"]: Backfill(row["rows_per_second"], row["parallelism"], row["snapshot_rows"])
        for row in store.query("select_backfills", pipeline=pipeline)
    }

    def progress(role: Role) -> tuple[RelationProgress, ...]:
        return tuple(
            _table(store, r, graphs[r.graph], main["committed"], backfills[r.id])
            if r.kind == "table"
            else _view(store, r, graphs[r.graph]["committed"], main["committed"], backfills[r.id])
            for r in versions
            if r.role == role
        )

    ending = store.query("select_ending", pipeline=pipeline)
    return PipelineProgress(
        pipeline,
        main["committed"],
        main["owner"] if main["seconds_left"] else None,
        progress(Role.CURRENT),
        controls["paused"],
        controls["waiting_rows"],
        progress(Role.NEXT),
        tuple(label(row["name"], row["version"]) for row in ending),
    )


class Backfill(NamedTuple):
    rows_per_s: int | None
    parallelism: int | None
    snapshot_rows: int | None


def _table(
    store: Statements,
    relation: Relation,
    graph: dict[str, Any],
    committed: Epoch,
    backfill: Backfill,
) -> RelationProgress:
    passed = (graph["passed_term"], graph["passed"])
    splits = store.query("select_splits", relation=relation.id)
    finished = [s for s in splits if s["finished"]]
    live = relation.state == "Live"
    passed_splits = sum((s["watermark_term"], s["watermark"]) <= passed for s in finished)
    rows = sum(s["rows"] for s in splits)
    tracker = CdcTableTracker(relation.name, graph["generation"], len(splits), completed=live)
    tracker.report(
        CdcProgress(graph["generation"], len(splits), len(finished), passed_splits, rows)
    )
    return RelationProgress(
        relation.name,
        relation.kind,
        relation.state,
        relation.why,
        committed if live else None,
        rows,
        len(splits) or None,
        len(finished),
        passed_splits,
        live,
        None if relation.state in ("Stopped", "Repairing") else tracker.progress(),
        backfill.rows_per_s,
        relation.label,
        relation.build,
        backfill.parallelism,
        _at_least(backfill.snapshot_rows, rows),
        _speed(store, relation) if relation.state == "Backfilling" else None,
    )


def _at_least(counted: int | None, rows: int) -> int | None:
    """Return an estimate that is of use: one that was passed already says nothing."""
    return counted if counted is not None and counted >= rows else None


def _speed(store: Statements, relation: Relation) -> float | None:
    found = store.query("select_backfill_rate", graph=relation.graph)
    return found[0]["rows_per_s"] if found else None


def _view(
    store: Statements, relation: Relation, epoch: Epoch, committed: Epoch, backfill: Backfill
) -> RelationProgress:
    progress = store.query("select_vnode_progress", relation=relation.id)
    begun = relation.snapshot_epoch is not None
    finished = sum(p["is_finished"] for p in progress)
    rows = sum(p["row_count"] for p in progress)
    tracker = CreateMviewProgressTracker(relation.name, backfill.snapshot_rows)
    match relation.state:
        case "ConsumingSnapshot":
            tracker.report(ConsumingSnapshot(relation.snapshot_epoch or ZERO, rows))
        case "ConsumingLogStore" | "Finishing":
            tracker.finishing = relation.state == "Finishing"
            tracker.report(ConsumingLogStore(committed - epoch))
        case "Done":
            tracker.report(DoneLogStore())
    return RelationProgress(
        relation.name,
        relation.kind,
        relation.state,
        relation.why,
        epoch if begun and epoch >= (relation.snapshot_epoch or 0) else None,
        rows,
        relation.vnode_count,
        finished,
        finished if relation.in_step else 0,
        relation.in_step,
        None if relation.state == "Stopped" else tracker.progress(),
        None,
        relation.label,
        relation.build,
        total_rows=_at_least(backfill.snapshot_rows, rows),
        speed=_speed(store, relation) if relation.state == "ConsumingSnapshot" else None,
    )
