"""What EXPLAIN prints of a view."""

from ops.planner.explain import explain
from tests.support.views import bound_view
from tests.unit.planner.test_bind_view import UPSTREAM


def test_an_aggregate_with_all_its_tables() -> None:
    query = (
        "SELECT r, count(*) AS n, max(m) FILTER (WHERE b) AS best, count(DISTINCT i) AS c, "
        "sum(l) / 2 AS half FROM t WHERE m > 0 GROUP BY r, k HAVING count(*) > 1"
    ).replace(", k", ", d")
    assert explain(bound_view(query, UPSTREAM), UPSTREAM).split("\n") == [
        "v  key (r, _tg_key_d)",
        "Project  half = (_tg_call_3 / 2)",
        "Filter  (n > 1)",
        "HashAgg  group by r, d",
        "  n = count(*): value",
        "  best = max(m) filter (b): materialized input, v__entries_0",
        "  c = count(distinct i): value, v__entries_1",
        "  _tg_call_3 = sum(l): value",
        "  state v__state  key (r, _tg_key_d)",
        "  state v__entries_0  key (r, _tg_key_d, _tg_value)",
        "  state v__entries_1  key (r, _tg_key_d, _tg_value)",
        "Filter  (m > 0)",
        "Changes of t  key (id)",
    ]


def test_one_row_and_a_projection() -> None:
    one = explain(bound_view("SELECT count(*) AS n FROM t", UPSTREAM), UPSTREAM).split("\n")
    assert one[2] == "SimpleAgg  always one row"
    plain = explain(bound_view("SELECT id, lower(r) AS r FROM t", UPSTREAM), UPSTREAM)
    assert plain.split("\n") == ["v  key (id)", "Project  r = lower(r)", "Changes of t  key (id)"]
