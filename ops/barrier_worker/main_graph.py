"""A pipeline's main graph: its sources, its views, and what their reports mean in a commit.

In one transaction with the epoch: the files, the sources' positions, the watermarks that passed,
the tables that stop or go live, the views that rejoin, stay in step, or fall out, and the builds
that are whole by that: each of their names means the new version from this epoch on.

Pure.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ops.backfill.cdc.offset import PostgresOffset, serialize_offset
from ops.barrier_manager.events import CreateProgress, Report
from ops.barrier_manager.progress import DoneLogStore
from ops.barrier_worker.commit import EpochCommit, commit_epoch
from ops.barrier_worker.lease import Term, take_over
from ops.barrier_worker.reports import SourceOutput, ViewOutput
from ops.barrier_worker.worker import Actor, Completed
from ops.common.epoch import Epoch
from ops.common.errors import RepairWithdrawn, TermOver
from ops.common.ports import Failpoint, Statements, Store
from ops.common.table.relation import Relation, target_pin

HOLD_SECONDS = 900.0
"""How long a run that has gone holds what its views were reading, and an idle one as well."""


class SourceActor(Actor, Protocol):
    @property
    def has_work(self) -> bool: ...
    @property
    def is_full(self) -> bool: ...
    def committed(self, lsn: int) -> None: ...
    def finish(self) -> None: ...


@dataclass
class PipelineGraph:
    """`views` and `states` are by the view's label; so is `terms`, the term of each taken in."""

    pipeline: str
    graph: str
    owner: str
    store: Store
    failpoint: Failpoint
    sources: Mapping[str, SourceActor]
    view_actors: Sequence[Actor]
    views: Mapping[str, Relation]
    states: Mapping[str, Sequence[Relation]]
    terms: dict[str, Term]
    maintain: Callable[[Epoch], None]
    is_building: bool = False
    """Some version is being built, which a commit may swap in."""
    _swapped: bool = False

    def actors(self) -> Sequence[Actor]:
        return [*self.sources.values(), *self.view_actors]

    def has_work(self) -> bool:
        return any(source.has_work for source in self.sources.values())

    def is_full(self) -> bool:
        return any(source.is_full for source in self.sources.values())

    def take_in(self, views: tuple[str, ...]) -> None:
        """End the followers' terms; from here on only this graph moves these views."""
        for view in views:
            self.terms[view] = take_over(
                self.store, self.views[view].graph, owner=self.owner, failpoint=self.failpoint
            )

    def commit(self, completed: Completed) -> None:
        sources = [o for o in completed.outputs.values() if isinstance(o, SourceOutput)]
        views = [o for o in completed.outputs.values() if isinstance(o, ViewOutput)]
        barrier = completed.barrier
        assert barrier.attempt is not None
        offsets = {o.source: _offset_json(o.end_lsn) for o in sources if o.end_lsn is not None}
        files = [f for s in sources for f in s.files] + [f for v in views for f in v.files]
        epoch = barrier.epoch.prev

        def also(tx: Statements) -> None:
            # First of all: who applies a definition locks the pipeline before its relations.
            tx.query("lock_pipeline", pipeline=self.pipeline)
            self._hold(tx, epoch)
            for source, offset in offsets.items():
                tx.execute("set_source_offset", pipeline=self.pipeline, name=source, offset=offset)
            for output in sources:
                self._tables(tx, output, epoch)
            for ready in tx.query("select_ready_tables", pipeline=self.pipeline):
                tx.execute("set_relation_live", relation=ready["id"], epoch=epoch)
            for view in views:
                # It rejoins in the commit of the checkpoint in which it said that it is done.
                done = _is_done(completed.reports.get(("view", view.view)))
                self._view(tx, view, epoch, rejoining=done)
            if self.is_building:
                self._swap(tx)
            for command in completed.commands:
                tx.execute("set_command_done", command=command, epoch=epoch)

        commit_epoch(
            self.store,
            EpochCommit(
                graph=self.graph,
                term=completed.term,
                prev=completed.committed,
                epoch=epoch,
                attempts=(barrier.attempt.id, *_committable(views)),
                files=files,
                offsets=offsets,
            ),
            failpoint=self.failpoint,
            name="rejoin" if barrier.rejoining else "tick",
            also=also,
        )

    def _swap(self, tx: Statements) -> None:
        """Let the names of whole builds mean the new versions; the old ones end here."""
        for ready in tx.query("select_ready_builds", pipeline=self.pipeline):
            self.failpoint("swap.before_commit")
            tx.execute("swap_out", pipeline=self.pipeline, build=ready["build"])
            tx.execute("swap_in", pipeline=self.pipeline, build=ready["build"])
            self._swapped = True

    def _hold(self, tx: Statements, epoch: Epoch) -> None:
        """Say that nothing listed before is in use, and that all that is listed from here on is.

        The views in step look at what is listed after a commit, and read it until the next one.
        """
        held = sorted(
            {
                relation
                for view in self.terms
                for relation in (self.views[view].upstream, *(r.id for r in self.states[view]))
                if relation is not None
            }
        )
        if held:
            tx.query("lock_relations", relations=held)
            tx.execute(
                "upsert_reader_pins",
                relations=held,
                owner=self.graph,
                epoch=epoch,
                seconds=HOLD_SECONDS,
            )

    def after_commit(self, completed: Completed) -> None:
        if self._swapped:
            self.failpoint("swap.after_commit")
            self._swapped = False
        for output in completed.outputs.values():
            if isinstance(output, SourceOutput) and output.end_lsn is not None:
                self.sources[output.source].committed(output.end_lsn)
            if isinstance(output, ViewOutput) and output.failed is None:
                term = self.terms[output.view]
                moved = completed.barrier.epoch.prev
                self.terms[output.view] = Term(term.graph, term.term, moved, term.generation)
        self.maintain(completed.barrier.epoch.prev)

    def finish(self) -> None:
        """Confirm the last commit, after which no barrier comes."""
        for source in self.sources.values():
            source.finish()

    def _tables(self, tx: Statements, output: SourceOutput, epoch: Epoch) -> None:
        for mark in output.watermarks:
            tx.execute(
                "set_graph_passed",
                graph=mark.graph,
                generation=mark.generation,
                term=mark.term,
                epoch=mark.epoch,
            )
        for relation, why in output.stopped.items():
            tx.execute("set_relation_state", relation=relation, state="Stopped", why=why)
        for repair in output.repairs:
            if repair.rows is None:
                tx.execute("delete_repair", repair=repair.repair)
            elif not tx.execute("take_repair", repair=repair.repair, epoch=epoch, rows=repair.rows):
                raise RepairWithdrawn(repair.repair)
            tx.execute("fail_taken_attempt", repair=repair.repair)
            tx.execute("delete_repair_pin", repair=repair.repair)

    def _view(self, tx: Statements, output: ViewOutput, epoch: Epoch, *, rejoining: bool) -> None:
        relation, term = self.views[output.view], self.terms[output.view]
        assert relation.upstream is not None
        in_step = output.failed is None
        if in_step:
            touched = tx.execute(
                "advance_graph",
                graph=relation.graph,
                epoch=epoch,
                prev=output.after,
                term=term.term,
            )
            if touched != 1:
                raise TermOver(relation.graph, term.term)
            if rejoining:
                tx.query("lock_relation", relation=relation.upstream)
                for owner in (relation.graph, target_pin(relation.graph)):
                    tx.execute("delete_pin", relation=relation.upstream, owner=owner)
        else:
            if output.attempt is not None:
                tx.execute("fail_attempt", attempt=output.attempt.id)
            tx.query("lock_relation", relation=relation.upstream)
            tx.execute(
                "upsert_pin",
                relation=relation.upstream,
                owner=relation.graph,
                epoch=output.after,
            )
        if rejoining or not in_step:
            tx.execute(
                "set_view_in_step",
                relation=relation.id,
                in_step=in_step,
                state="Done" if in_step else "ConsumingLogStore",
                why=None if in_step else str(output.failed),
                epoch=epoch if in_step else None,
            )


def _committable(views: list[ViewOutput]) -> list[int]:
    return [v.attempt.id for v in views if v.attempt is not None and v.failed is None]


def _is_done(report: Report | None) -> bool:
    return isinstance(report, CreateProgress) and isinstance(report.state, DoneLogStore)


def _offset_json(lsn: int) -> dict[str, object]:
    offset: dict[str, object] = json.loads(serialize_offset(PostgresOffset(lsn)))
    return offset
