"""Views of every shape over one table, each kept by changes and judged by Postgres."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import psycopg
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ops.aggregate.view_executor import ViewExecutor
from ops.barrier_worker.commit import EpochCommit, commit_epoch
from ops.common.barrier import Attempt
from ops.common.epoch import Epoch
from ops.common.schema import Column, DataType, Schema
from ops.common.table.relation import Relation, StagedFile, changed_files, contents
from ops.common.table.state_table import StateTable
from ops.planner.apply import relation_graph
from ops.planner.bind_view import bind_view
from ops.planner.parse import parse_pipeline
from ops.planner.plan_view import state_schemas
from resources.lake import Lake
from tests.support.control import Place
from tests.support.expressions import kept
from tests.support.live_table import LiveTable, pass_by
from tests.support.model import Rows, Wish, wishes
from tests.support.views import BEFORE

TYPES = "id int4, r text, k int2, s int2, i int4, l int8, m numeric(12,2), b bool, d date"
UPSTREAM = Schema(
    tuple(
        Column(name, DataType.parse(kind), nullable=name != "id")
        for name, kind in (pair.split(" ") for pair in TYPES.split(", "))
    ),
    ("id",),
)
SHAPES = {
    "plain": "SELECT r, i + 1 AS next, upper(r) || '!' AS loud, m / 3 AS third FROM t WHERE b",
    "whole": "SELECT * FROM t WHERE i > 0 OR r IS NULL",
    "sums": "SELECT r, count(*), count(i) AS c, sum(s) AS s, sum(i) AS i, sum(l) AS l, "
    "sum(m) AS m FROM t GROUP BY r",
    "means": "SELECT r, avg(i) AS a, avg(m) AS m, avg(l) AS l, var_pop(i) AS vp, "
    "var_samp(i) AS vs, var_samp(m) AS vm, sum(i) / nullif(count(i), 0) AS q FROM t GROUP BY r",
    "logic": "SELECT k, bool_and(b) AS ba, bool_or(b) AS bo, every(i > 0) AS e, bit_and(s) AS ias, "
    "bit_or(i) AS ori, bit_xor(l) AS x, bit_and(l) AS al FROM t GROUP BY k",
    "ends": "SELECT r, k, min(i) AS lo, max(i) AS hi, min(r || d) AS t, max(d) AS d, min(m) AS m, "
    "max(m) FILTER (WHERE b) AS best FROM t GROUP BY r, k",
    "distincts": "SELECT r, count(DISTINCT i) AS c, sum(DISTINCT m) AS s, avg(DISTINCT i) AS a, "
    "count(DISTINCT d) FILTER (WHERE b) AS f, count(*) AS n FROM t GROUP BY r",
    "filtered": "SELECT r || coalesce(k, 0) AS rk, count(*) FILTER (WHERE b) AS n, "
    "sum(m) FILTER (WHERE i > 0) AS m FROM t WHERE d IS NOT NULL GROUP BY 1 "
    "HAVING count(*) > 1 OR sum(i) > 0",
    "whole_sum": "SELECT count(*), sum(m), max(i) AS hi, bool_or(b) AS b, avg(i) AS a, "
    "count(DISTINCT r) AS rs FROM t",
    "kinds": "SELECT DISTINCT r, i > 0 AS up FROM t",
    "nested": "WITH x AS (SELECT r, m * 2 AS dm FROM t WHERE b) SELECT y.r, y.total + 1 AS more "
    "FROM (SELECT r, sum(dm) AS total FROM x GROUP BY r) y WHERE y.total > 0",
    "over_sums": "SELECT c > 1 AS many, count(*) n, sum(m) m, max(i) AS hi FROM sums GROUP BY 1",
    "over_ends": "SELECT lo, best FROM ends WHERE hi IS NOT NULL",
    "over_over": "SELECT count(*) AS n, min(lo) AS lo FROM over_ends",
}


def _or_null(*values: object) -> st.SearchStrategy[object]:
    return st.sampled_from([None, *values])


WISHES: st.SearchStrategy[list[Wish]] = wishes(
    st.tuples(st.integers(0, 14)),
    st.tuples(
        _or_null("", "north", "b c", "é"),
        _or_null(1, 2),
        _or_null(-32_768, 32_767, 5),
        _or_null(-7, 0, 3, 1000),
        _or_null(-(2**63), 2**63 - 1, 12),
        _or_null(Decimal("-9999999999.99"), Decimal("0.01"), Decimal("2.50"), Decimal("7.00")),
        _or_null(True, False),
        _or_null(date(2024, 2, 29), date(1999, 12, 31)),
    ),
    most=20,
)


@dataclass
class Shapes:
    """`now` is the epoch of all views and of their table."""

    table: LiveTable
    executors: dict[str, ViewExecutor]
    judge: psycopg.Connection[Any]
    now: Epoch = field(default=Epoch(0))

    @staticmethod
    def create(
        place: Place, lake: Lake, spark: SparkSession, judge: psycopg.Connection[Any]
    ) -> "Shapes":
        table = LiveTable.create(place, lake, spark, UPSTREAM, graph=place.main)
        text = "".join(f"CREATE MATERIALIZED VIEW {n} AS {q};\n" for n, q in SHAPES.items())
        relations: dict[str, Relation] = {"t": table.relation}
        executors: dict[str, ViewExecutor] = {}
        judge.execute(f"DROP TABLE IF EXISTS t CASCADE; CREATE TABLE t ({TYPES})")
        for plan in parse_pipeline("p", BEFORE + text).views:
            upstream = relations[plan.upstream]
            view = bind_view(plan, upstream.schema)
            given = {
                "upstream": upstream.id,
                "state": "Done",
                "graph": relation_graph(place.pipeline, plan.name),
                "vnode_count": plan.vnode_count,
            }
            output = place.create(plan.name, view.output, kind="view", **given)
            states = tuple(
                place.create(name, schema, kind="state", **given)
                for name, schema in state_schemas(view).items()
            )
            relations[plan.name] = output
            executors[plan.name] = ViewExecutor(
                view, output, states, upstream, spark, lake, pass_by
            )
            judge.execute(f"CREATE MATERIALIZED VIEW {plan.name} AS {SHAPES[plan.name]}")
        shapes = Shapes(table, executors, judge)
        shapes._begin()
        return shapes

    def commit(self, wanted: list[Wish]) -> None:
        """Commit an epoch of the table, bring every view to it, commit them with one another."""
        epoch = self.table.commit(wanted)
        staged: dict[int, list[StagedFile]] = {}
        attempts = []
        store, listed = self.table.place.store, self.table.listing()
        for executor in self.executors.values():
            up = executor.upstream
            if up.id == self.table.relation.id:
                files = changed_files(up, listed, self.now, epoch)
            else:
                files = [f for f in staged[up.id] if f.relation == up.id]
            attempt = self.table.attempt()
            attempts.append(attempt)
            staged[executor.output.id] = executor.apply(
                files,
                before=contents(store, up, self.now),
                states={r.id: contents(store, r, self.now) for r in executor.states},
                attempt=attempt,
                after=self.now,
                epoch=epoch,
            )
        self._commit(attempts, [f for files in staged.values() for f in files])

    def _begin(self) -> None:
        """Fill the views from the empty table: those that always show a row have it from here."""
        self.table.commit([])
        self.now = self.table.now
        attempts, files = [], []
        store = self.table.place.store
        for executor in self.executors.values():
            attempt = self.table.attempt()
            attempts.append(attempt)
            states = {r.id: contents(store, r, Epoch(0)) for r in executor.states}
            files += executor.stage_output(states=states, attempt=attempt)
        self._commit(attempts, files)

    def _commit(self, attempts: list[Attempt], files: list[StagedFile]) -> None:
        table = self.table
        epoch = table.next
        numbers = tuple(a.id for a in attempts)
        commit = EpochCommit(table.term.graph, table.term.term, table.now, epoch, numbers, files)
        commit_epoch(table.place.store, commit, failpoint=pass_by, name="tick")
        table.history[epoch] = table.history[table.now]
        self.now = epoch

    def differing(self) -> dict[str, Any]:
        """Return the views that are not what Postgres says, with both sides."""
        self._load(self.table.history[self.table.now])
        found = {}
        for name, executor in self.executors.items():
            self.judge.execute(f"REFRESH MATERIALIZED VIEW {name}")
            wanted = _bag(self.judge.execute(f"SELECT * FROM {name}").fetchall())
            shown = _bag(self._rows(executor))
            if wanted != shown:
                found[name] = {"missing": wanted - shown, "too many": shown - wanted}
        return found

    def _rows(self, executor: ViewExecutor) -> list[tuple[Any, ...]]:
        relation = executor.output
        table = StateTable(executor.spark, executor.lake, relation)
        there = contents(self.table.place.store, relation, self.now)
        rows = table.read(there).toArrow().to_pylist()
        names = [n for n in relation.schema.names if not n.startswith("_tg_")]
        return [tuple(row[name] for name in names) for row in rows]

    def _load(self, rows: Rows) -> None:
        self.judge.execute("TRUNCATE t")
        marks = ", ".join(["%s"] * len(UPSTREAM.columns))
        with self.judge.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t VALUES ({marks})", list(rows.values()))


def _bag(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(kept(value) for value in row) for row in rows)
