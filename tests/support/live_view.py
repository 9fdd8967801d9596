"""A grouped view over a live table, with every kind of sum there is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ops.aggregate.agg_group import AggGroup
from ops.aggregate.view_executor import ViewExecutor
from ops.common.change import Row
from ops.common.epoch import Epoch
from ops.common.schema import INT8, NUMERIC, TEXT, Column, DataType, Kind, Schema
from ops.common.table.net import Key
from ops.common.table.relation import DataFile, Relation, StagedFile, changed_files
from ops.planner.apply import relation_graph
from ops.planner.plan_view import state_schemas
from resources.lake import Lake
from tests.support.control import Place
from tests.support.live_table import LiveTable, pass_by
from tests.support.model import Rows, Wish, difference, wishes
from tests.support.views import agg_view, call_values, group_key

UPSTREAM = Schema(
    (
        Column("id", INT8),
        Column("region", TEXT),
        Column("kind", DataType(Kind.INT4)),
        Column("small", DataType(Kind.INT2)),
        Column("mid", DataType(Kind.INT4)),
        Column("big", INT8),
        Column("money", DataType(Kind.NUMERIC, 12, 2)),
        Column("wide", NUMERIC),
    ),
    ("id",),
)
# `region` is shown as `money`, the sum of `money` as `region`; `kind` is grouped by, not shown.
VIEW = agg_view(
    "SELECT count(*) AS n, region AS money, count(mid) AS mids, sum(small) AS small, "
    "sum(mid) AS mid, sum(big) AS big, sum(money) AS region, sum(wide) AS wide "
    "FROM t GROUP BY region, kind",
    UPSTREAM,
)


def _or_null(*values: object) -> st.SearchStrategy[object]:
    return st.sampled_from([None, *values])


WISHES: st.SearchStrategy[list[Wish]] = wishes(
    st.tuples(st.integers(0, 9)),
    st.tuples(
        _or_null("", "north"),
        _or_null(1),
        _or_null(-32_768, 32_767),
        _or_null(-(2**31), 2**31 - 1),
        _or_null(-(2**63), 2**63 - 1),
        _or_null(Decimal("-9999999999.99"), Decimal("0.01")),
        _or_null(
            Decimal("12345678901234567890.000000000000000001"),
            Decimal("-0.000000000000000001"),
        ),
    ),
)


@dataclass
class LiveView:
    """`groups` is the law row by row: what the executor must agree with."""

    upstream: LiveTable
    executor: ViewExecutor
    output: LiveTable
    state: LiveTable
    groups: dict[Key, AggGroup] = field(default_factory=dict)

    @staticmethod
    def create(
        place: Place,
        lake: Lake,
        spark: SparkSession,
        *,
        failpoint: Callable[[str], None] = pass_by,
    ) -> "LiveView":
        upstream = LiveTable.create(place, lake, spark, UPSTREAM, graph=place.main)
        output, state = create_relations(place, upstream.relation)
        executor = ViewExecutor(VIEW, output, (state,), upstream.relation, spark, lake, failpoint)
        return LiveView(upstream, executor, _reader(upstream, output), _reader(upstream, state))

    def follow(self) -> list[StagedFile]:
        """Bring the view from its epoch to its upstream's, in one range, and commit it."""
        after, epoch = self.output.now, self.upstream.now
        files: tuple[DataFile, ...] = changed_files(
            self.upstream.relation, self.upstream.listing(), after, epoch
        )
        attempt = self.upstream.attempt()
        staged = self.executor.apply(
            files,
            before=self.upstream.contents(after) if after else self.upstream._nothing(),
            states={self.state.relation.id: self.state.contents(after)},
            attempt=attempt,
            after=after,
            epoch=epoch,
        )
        self.upstream.commit_files(attempt, staged)
        # Committed by an epoch of the upstream's graph that holds nothing else.
        self.take(after, epoch)
        for table in (self.output, self.state):
            table.history[self.upstream.now] = {}
        return staged

    def take(self, after: Epoch, epoch: Epoch) -> None:
        """Apply what happened upstream to the groups, row by row."""
        moved = difference(self.upstream.history[after], self.upstream.history[epoch])
        for old, new in moved.values():
            for row, sign in ((old, -1), (new, 1)):
                if row is not None:
                    named = dict(zip(UPSTREAM.names, row, strict=True))
                    key = group_key(VIEW, named)
                    group = self.groups.setdefault(key, AggGroup(VIEW, key))
                    group.apply(call_values(VIEW, named), sign)

    def expected(self) -> Rows:
        """Return the view's rows in its columns' order, as the groups have them."""
        names = [*(key.name for key in VIEW.keys), *(c.output for c in VIEW.calls)]
        rows: Rows = {}
        for key, group in self.groups.items():
            shown = group.output(epoch=0)
            if shown is not None:
                named = dict(zip(names, shown, strict=True))
                rows[key] = tuple(named[name] for name in VIEW.output.names)
        return rows

    def shown(self) -> Rows:
        now = self.output.now
        return self.output.read(now)[now]


def create_relations(
    place: Place, upstream: Relation, state: str = "ConsumingLogStore"
) -> tuple[Relation, Relation]:
    graph = relation_graph(place.pipeline, "v")
    given = {"upstream": upstream.id, "state": state, "graph": graph, "vnode_count": 4}
    output = place.create("v", VIEW.output, kind="view", **given)
    ((name, schema),) = state_schemas(VIEW).items()
    return output, place.create(name, schema, kind="state", **given)


def _reader(upstream: LiveTable, relation: Relation) -> LiveTable:
    return LiveTable(
        upstream.place,
        upstream.lake,
        upstream.spark,
        relation,
        upstream.term,
        {0: {}},
    )


def row(number: int, region: str | None, *, wide: str | None = None, mid: int | None = None) -> Row:
    value = None if wide is None else Decimal(wide)
    return (number, region, None, None, mid, None, None, value)
