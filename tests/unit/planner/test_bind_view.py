"""Views as Postgres describes them: names, types, groups; judged by Postgres itself."""

import re

import psycopg
import pytest

from ops.common.errors import Unsupported
from ops.common.schema import INT8, Column, DataType, Kind, Schema
from ops.planner.expr_types import shown
from ops.planner.plan_view import AggView, ProjectView, Strategy
from tests.support.views import agg_view, bound_view

TYPES = "id int4, r text, q text, s int2, i int4, l int8, m numeric(12,2), b bool, d date"
COLUMNS = tuple(
    Column(name, DataType.parse(kind), nullable=name != "id")
    for name, kind in (pair.split(" ") for pair in TYPES.split(", "))
)
UPSTREAM = Schema(COLUMNS, ("id",))

VIEWS = """
SELECT * FROM t
SELECT t.*, i + 1 AS next FROM t WHERE i > 0
SELECT r, upper(r), i::bigint, coalesce(m, 0), count(*) FROM t GROUP BY r, i, m
SELECT r, count(*), sum(s), avg(i), min(d), max(m) FROM t GROUP BY r
SELECT r AS q, count(*) FROM t GROUP BY r
SELECT lower(r) AS q, count(*) AS n FROM t GROUP BY lower(r)
SELECT upper(r) AS name, count(*) FROM t GROUP BY name
SELECT upper(r) AS name, count(*) FROM t GROUP BY 1
SELECT r, sum(l) AS total FROM t GROUP BY r HAVING count(*) > 1 AND sum(l) > 10
SELECT count(*), sum(m), avg(m) FROM t
SELECT sum(i) FROM t HAVING count(*) > 3
SELECT DISTINCT r, i % 2 AS odd FROM t WHERE b
SELECT r, count(DISTINCT i), sum(DISTINCT i), count(*) FILTER (WHERE b) AS yes FROM t GROUP BY r
SELECT r, sum(i) / count(*) AS mean, sum(i) * 2 AS twice, max(i) - min(i) AS span FROM t GROUP BY r
SELECT r || '!' AS loud, count(*) FROM t GROUP BY r
SELECT i + 1 AS j, count(*) FROM t GROUP BY i + 1
SELECT (i + 1) * 2 AS j, count(*) FROM t GROUP BY i + 1
SELECT bool_and(b), bool_or(b), every(b), bit_and(i), bit_or(s), bit_xor(l) FROM t
SELECT r, var_pop(i), var_samp(m), variance(s) FROM t GROUP BY r
SELECT x.k, x.n + 1 AS n FROM (SELECT r AS k, count(*) AS n FROM t GROUP BY r) x WHERE x.n > 1
WITH p AS (SELECT r, i FROM t), q AS (SELECT r g, i * 2 v FROM p) SELECT g, sum(v) FROM q GROUP BY g
WITH t2 AS (SELECT r, m FROM t) SELECT o.r, sum(o.m) FROM t2 AS o WHERE o.m > 1.5 GROUP BY o.r
SELECT CASE WHEN i > 0 THEN 'up' ELSE 'down' END AS way, count(*) FROM t GROUP BY 1
SELECT date_trunc('month', d) AS month, sum(m) FROM t GROUP BY month
SELECT r, q FROM t GROUP BY r, q
SELECT r FROM t GROUP BY r HAVING max(i) IS NOT NULL
SELECT 1 AS one, count(*) FROM t
"""


def views() -> list[str]:
    return [line for line in VIEWS.split("\n") if line]


def visible(schema: Schema) -> list[tuple[str, str]]:
    return [(c.name, shown(c.type)) for c in schema.columns if not c.name.startswith("_tg_")]


def test_names_and_types_are_those_of_postgres(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE t ({TYPES})")
        for number, query in enumerate(views()):
            connection.execute(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
            described = connection.execute(
                "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
                f"WHERE attrelid = 'v{number}'::regclass AND attnum > 0 ORDER BY attnum"
            ).fetchall()
            assert visible(bound_view(query, UPSTREAM).output) == described, query


def test_a_projection_keeps_the_key_of_its_upstream() -> None:
    shown_view = bound_view("SELECT r, id AS k FROM t", UPSTREAM)
    hidden = bound_view("SELECT r FROM t", UPSTREAM)
    assert isinstance(shown_view, ProjectView) and isinstance(hidden, ProjectView)
    assert (shown_view.output.names, shown_view.output.key) == (("r", "k"), ("k",))
    assert (hidden.output.names, hidden.output.key) == (("r", "_tg_key_id"), ("_tg_key_id",))


def test_the_state_of_counts_and_sums_is_as_it_was() -> None:
    """Tables of older versions are read on: their names and types stay."""
    view = agg_view("SELECT r, count(*) AS orders, sum(m) AS amount FROM t GROUP BY r, i", UPSTREAM)
    wide = DataType(Kind.NUMERIC, 38, 2)
    assert view.state == Schema(
        (
            Column("r", DataType(Kind.TEXT)),
            Column("_tg_key_i", DataType(Kind.INT4)),
            Column("_tg_rows", INT8, nullable=False),
            Column("_tg_total_orders", INT8, nullable=False),
            Column("_tg_total_amount", wide, nullable=False),
            Column("_tg_count_amount", INT8, nullable=False),
        ),
        ("r", "_tg_key_i"),
    )
    assert view.output.names == ("r", "orders", "amount", "_tg_key_i")


def test_entries_are_shared_and_one_group_has_a_constant_key() -> None:
    query = "SELECT min(i), max(i), count(DISTINCT i), max(i) FILTER (WHERE b) AS best FROM t"
    view = agg_view(query, UPSTREAM)
    assert [e.name for e in view.entries] == ["v__entries_0", "v__entries_1"]
    assert view.entries[0].schema.key == ("_tg_key_all", "_tg_value")
    assert view.strategy is Strategy.ALWAYS_OUTPUT and view.state.key == ("_tg_key_all",)
    assert isinstance(bound_view("SELECT r FROM t GROUP BY r", UPSTREAM), AggView)


WRONG = {
    "SELECT x FROM t": "column 8: view v: there is no column 'x'; there are: id, r, q, s",
    "SELECT r, count(*) FROM t": "column 8: view v: column r is neither grouped nor aggregated; "
    "add r to GROUP BY",
    "SELECT r, i, count(*) FROM t GROUP BY r": "column 11: view v: column i is neither grouped",
    "SELECT r FROM t GROUP BY r HAVING i > 1": "column 35: view v: column i is neither grouped",
    "SELECT r, count(*) FROM t GROUP BY 2": "column 11: view v: an aggregate may not stand here",
    "SELECT r FROM t WHERE count(*) > 1": "column 23: view v: an aggregate may not stand here",
    "SELECT sum(count(*)) FROM t": "column 12: view v: an aggregate may not stand here",
    "SELECT r, count(*) FROM t GROUP BY 3": "column 36: view v: GROUP BY position 3 is not in "
    "the SELECT list; it has 2 columns",
    "SELECT x.r FROM t": "column 8: view v: x is not in FROM; write t before the dot",
    "SELECT count(*), count(i) FROM t": "view v: two output columns are called count",
    'SELECT r, i AS "R" FROM t': "view v: two output columns are called R, or differ only in case",
    "SELECT r AS _tg_x FROM t": "output column '_tg_x' begins with _tg_",
    "SELECT i + 1 FROM t": "column 8: view v: this column has no name; name it with AS",
    "SELECT r FROM t WHERE i": "column 23: view v: WHERE must be boolean, not integer",
    "SELECT sum(r) FROM t": "column 8: view v: there is no sum over text here",
    "SELECT sum(b) FROM t": "column 8: view v: there is no sum over boolean here",
    "SELECT max(b) FROM t": "column 8: view v: there is no max over boolean here",
    "SELECT string_agg(r, ',') AS x FROM t": "is not supported yet",
    "SELECT count(i, s) FROM t": "column 8: view v: count takes one argument here, not 2",
    "SELECT sum(i ORDER BY i) FROM t": "column 8: view v: ORDER BY inside sum is not supported",
    "SELECT DISTINCT r, count(*) FROM t GROUP BY r": "aggregate of an aggregate",
    "SELECT sum(n) FROM (SELECT count(*) AS n FROM t GROUP BY r) x": "make the inner query a view",
    "SELECT r, sum(i) OVER () AS x FROM t": "a window function (OVER) is not supported yet",
}


ODD = Schema(
    (
        Column("id", INT8),
        Column("e", DataType.parse("text(mood)")),
        Column("f", DataType.parse("float8")),
    ),
    ("id",),
)


@pytest.mark.parametrize(
    "what", ["e = 'sad'", "e IN ('sad')", "e < e", "f = f", "greatest(f, f) = f"]
)
def test_what_spark_would_compare_otherwise(what: str) -> None:
    with pytest.raises(Unsupported, match="is not compared here as in Postgres"):
        bound_view(f"SELECT id FROM t WHERE {what}", ODD)
    assert bound_view("SELECT id, e, f FROM t WHERE e::text = 'sad'", ODD).output.names == ODD.names


@pytest.mark.parametrize("query", WRONG)
def test_wrong(query: str) -> None:
    with pytest.raises(Unsupported) as caught:
        bound_view(query, UPSTREAM)
    assert re.match(r"line \d+, column \d+: ", str(caught.value))
    assert WRONG[query] in str(caught.value)
