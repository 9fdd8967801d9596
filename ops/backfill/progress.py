"""Where a pipeline is: each table and view with its state, rows, splits, epoch and lag.

Read from the control store alone, so that it is the same for the command line, Dagster and tests.

Pure.
"""

from dataclasses import dataclass
from typing import Any

from ops.common.epoch import Epoch, unix_ms
from ops.common.ports import Statements
from ops.common.table.relation import Relation, relations_of


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


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    pipeline: str
    committed: Epoch
    owner: str | None
    relations: tuple[RelationProgress, ...]

    @property
    def settled(self) -> bool:
        return all(r.settled or r.state == "Stopped" for r in self.relations)

    def lag_ms(self, now_ms: int) -> int | None:
        return now_ms - unix_ms(self.committed) if self.committed else None


def pipeline_progress(store: Statements, pipeline: str) -> PipelineProgress:
    graphs = {row["id"]: row for row in store.query("select_graphs", pipeline=pipeline)}
    main = graphs[pipeline]
    relations = [r for r in relations_of(store, pipeline) if r.kind != "state"]
    return PipelineProgress(
        pipeline,
        main["committed"],
        main["owner"] if main["seconds_left"] else None,
        tuple(
            _table(store, r, graphs[r.graph], main["committed"])
            if r.kind == "table"
            else _view(store, r, graphs[r.graph]["committed"])
            for r in relations
        ),
    )


def _table(
    store: Statements, relation: Relation, graph: dict[str, Any], committed: Epoch
) -> RelationProgress:
    passed = (graph["passed_term"], graph["passed"])
    splits = store.query("select_splits", relation=relation.id)
    finished = [s for s in splits if s["finished"]]
    live = relation.state == "Live"
    return RelationProgress(
        relation.name,
        relation.kind,
        relation.state,
        relation.why,
        committed if live else None,
        sum(s["rows"] for s in splits),
        len(splits) or None,
        len(finished),
        sum((s["watermark_term"], s["watermark"]) <= passed for s in finished),
        live,
    )


def _view(store: Statements, relation: Relation, epoch: Epoch) -> RelationProgress:
    progress = store.query("select_vnode_progress", relation=relation.id)
    begun = relation.snapshot_epoch is not None
    finished = sum(p["is_finished"] for p in progress)
    return RelationProgress(
        relation.name,
        relation.kind,
        relation.state,
        relation.why,
        epoch if begun and epoch >= (relation.snapshot_epoch or 0) else None,
        sum(p["row_count"] for p in progress),
        relation.vnode_count,
        finished,
        finished if relation.in_step else 0,
        relation.in_step,
    )
