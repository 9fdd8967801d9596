"""What a view's SELECT may hold, and that everything else is refused by name and place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.common.errors import Unsupported
from ops.planner.parse import parse_pipeline
from ops.planner.plan import AggCall, AggKind, ViewPlan

OPTIONS = "connector='postgres-cdc', hostname='h', username='u', database.name='d'"
BEFORE = f"""CREATE SOURCE s WITH ({OPTIONS});
CREATE TABLE t (*) FROM s TABLE 'public.t';
"""


def view(query: str) -> ViewPlan:
    return parse_pipeline("p", f"{BEFORE}CREATE MATERIALIZED VIEW v AS\n{query}").views[0]


def refused(query: str) -> str:
    with pytest.raises(Unsupported) as caught:
        view(query)
    return str(caught.value)


def test_default_names_and_any_order() -> None:
    plan = view('SELECT count(*), A AS "Key", SUM(t.b) FROM t GROUP BY a')
    assert plan.outputs == ("count", "Key", "sum")
    assert plan.keys == (("a", "Key"),)
    assert plan.calls == (
        AggCall(AggKind.COUNT, None, "count"),
        AggCall(AggKind.SUM, "b", "sum"),
    )


def test_grouping_by_position_alias_of_the_table_and_hidden_keys() -> None:
    plan = view("SELECT o.a, count(o.b) AS n FROM t AS o GROUP BY c, 1, o.a")
    assert plan.keys == (("c", "_tg_key_c"), ("a", "a"))
    assert plan.outputs == ("a", "n")


def test_a_column_may_take_the_name_of_another() -> None:
    plan = view("SELECT a AS b, b AS a, count(*) FROM t GROUP BY a, b")
    assert plan.keys == (("a", "b"), ("b", "a"))


HINT = "; a view selects grouping columns, count(*), count(column) and sum(column)"
NOT_YET = {
    "SELECT a, count(*) FROM t WHERE a > 1 GROUP BY a": ("WHERE", 27, ""),
    "SELECT a, count(*) FROM t GROUP BY a HAVING count(*) > 1": ("HAVING", 38, ""),
    "SELECT DISTINCT a, count(*) FROM t GROUP BY a": ("SELECT DISTINCT", 8, ""),
    "SELECT a, count(*) FILTER (WHERE b) FROM t GROUP BY a": ("FILTER", 11, HINT),
    "SELECT a, count(*) FROM t JOIN u ON true GROUP BY a": ("JOIN", 27, ""),
    "SELECT a, count(*) FROM t, u GROUP BY a": ("JOIN", 26, ""),
    "SELECT a, count(*) FROM t GROUP BY a ORDER BY a": ("ORDER BY", 38, ""),
    "SELECT a, count(*) FROM t GROUP BY a LIMIT 1": ("LIMIT", 38, ""),
    "SELECT a, count(*) FROM t GROUP BY a OFFSET 1": ("OFFSET", 38, ""),
    "SELECT a, count(*) INTO x FROM t GROUP BY a": ("INTO", 20, ""),
    "SELECT a, count(*) FROM t FOR UPDATE GROUP BY a": ("FOR UPDATE", 27, ""),
    "SELECT a, count(*) FROM t GROUP BY a WINDOW w AS ()": ("WINDOW", 38, ""),
    "WITH x AS (SELECT 1) SELECT a, count(*) FROM t GROUP BY a": ("WITH", 1, ""),
    "SELECT a, count(*) FROM t GROUP BY a UNION ALL SELECT 1": ("UNION", 38, ""),
    "SELECT count(*) FROM t": ("a query without GROUP BY", 1, ""),
    "SELECT count(*) GROUP BY a": ("a SELECT without FROM", 1, ""),
    "SELECT a FROM t GROUP BY a": ("a query without an aggregate", 1, HINT),
    "SELECT a, count(*) FROM (SELECT 1) x GROUP BY a": ("FROM of anything but a table", 25, ""),
    "SELECT a, count(*) FROM t TABLESAMPLE SYSTEM (1) GROUP BY a": ("TABLESAMPLE", 25, ""),
    "SELECT a, count(*) FROM ONLY t GROUP BY a": ("FROM ONLY", 30, ""),
    "SELECT a, max(b) AS best FROM t GROUP BY a": ("the function max", 11, HINT),
    "SELECT a, foo(b) FROM t GROUP BY a": ("the function foo", 11, HINT),
    "SELECT a, sum(b) + 1 FROM t GROUP BY a": ("the expression 'sum(b) + 1'", 11, HINT),
    "SELECT a, count(*)::int FROM t GROUP BY a": ("the expression 'count(*)::int'", 11, HINT),
    "SELECT a IS DISTINCT FROM b, count(*) FROM t GROUP BY a": (
        "the expression 'a IS DISTINCT FROM b'",
        8,
        HINT,
    ),
    "SELECT a, sum(b) OVER () FROM t GROUP BY a": ("a window function (OVER)", 11, HINT),
    "SELECT a, (SELECT 1) FROM t GROUP BY a": ("a subquery", 11, HINT),
    "SELECT *, count(*) FROM t GROUP BY 1": ("SELECT *", 8, HINT),
    "SELECT t.*, count(*) FROM t GROUP BY 1": ("SELECT *", 8, HINT),
    "SELECT a, count(DISTINCT b) FROM t GROUP BY a": ("count(DISTINCT …)", 11, HINT),
    "SELECT a, sum(b ORDER BY b) FROM t GROUP BY a": ("ORDER BY inside sum", 11, HINT),
    "SELECT a, sum(b + 1) FROM t GROUP BY a": (
        "sum of anything but one column (sum(b + 1))",
        11,
        HINT,
    ),
    "SELECT a, count(1) FROM t GROUP BY a": (
        "count of anything but one column (count(1))",
        11,
        HINT,
    ),
    "SELECT a, count(*) FROM t GROUP BY ROLLUP(a)": ("ROLLUP", 36, ""),
    "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), ())": ("GROUPING SETS", 36, ""),
    "SELECT a, count(*) FROM t GROUP BY ALL": ("GROUP BY ALL", 27, ""),
    "SELECT a, count(*) FROM t GROUP BY lower(a)": (
        "GROUP BY of the expression 'lower(a)'",
        36,
        "; group by columns, by name or position",
    ),
}


@pytest.mark.parametrize("query", NOT_YET)
def test_not_yet(query: str) -> None:
    what, column, hint = NOT_YET[query]
    expected = f"line 4, column {column}: {what} is not supported yet in view v{hint}"
    assert refused(query) == expected


WRONG = {
    "SELECT a, count(*), count(b) FROM t GROUP BY a": "column 21: two output columns are called "
    "count; give one another name with AS",
    'SELECT a, count(*) AS "A" FROM t GROUP BY a': "column 11: output columns differ from 'A' "
    "only in case; give one another name with AS",
    "SELECT a, a AS b, count(*) FROM t GROUP BY a": "column 11: grouping column a is selected "
    "twice; select it once",
    "SELECT a AS r, count(*) FROM t GROUP BY r": "column 8: column a is selected but neither "
    "grouped nor aggregated; write GROUP BY a: aliases are not looked at",
    "SELECT a, b, count(*) FROM t GROUP BY a": "column 11: column b is selected but neither "
    "grouped nor aggregated; add b to GROUP BY",
    "SELECT a, count(*) FROM t GROUP BY 2": "column 36: GROUP BY position 2 is an aggregate; "
    "group by columns",
    "SELECT a, count(*) FROM t GROUP BY 3": "column 36: GROUP BY position 3 is not in the SELECT "
    "list; it has 2 columns",
    "SELECT x.a, count(*) FROM t GROUP BY a": "column 8: x is not in FROM; write t before the dot",
    "SELECT a, count(*) FROM public.t GROUP BY a": "column 32: a schema before t has no meaning "
    "here; write the name alone",
    "SELECT a, count(*) AS _TG_x FROM t GROUP BY a": "column 11: output column '_tg_x' begins "
    "with _tg_, which is kept for hidden columns; rename it with AS",
    "SELECT a, count(*) FROM nope GROUP BY a": "column 25: view v reads 'nope', which is not "
    "defined before it; tables before it: t",
    "SELECT a, count(*) FROM s GROUP BY a": "column 25: view v reads s, a source; "
    "tables before it: t",
    "SELECT a count(*) FROM t GROUP BY a": "column 15: syntax error at '('",
    "SELECT a, count(* FROM t GROUP BY a": "column 19: syntax error at 'FROM'",
    "SELECT a, FROM t GROUP BY a": "column 9: syntax error: a column is missing",
    "SELECT a, count(*) FROM t GROUP BY a,": "column 37: syntax error: a column is missing",
    "SELECT a, count(*) FROM t GROUP BY a EMIT ON WINDOW CLOSE": "column 38: "
    "EMIT ON WINDOW CLOSE is not supported yet",
}


@pytest.mark.parametrize("query", WRONG)
def test_wrong(query: str) -> None:
    assert refused(query) == f"line 4, {WRONG[query]}"


def test_views_on_views() -> None:
    first = "SELECT a, count(*) FROM t GROUP BY a"
    second = "CREATE MATERIALIZED VIEW w AS SELECT a, sum(count) FROM v GROUP BY a"
    assert refused(f"{first};\n{second}") == (
        "line 5, column 57: view w reads view v: views on views are not supported yet; "
        "tables before it: t"
    )


names = st.text("abzABZé0_ x", min_size=1, max_size=8).filter(
    lambda name: " " not in name and not name.lower().startswith("_tg_")
)


@st.composite
def views(draw: st.DrawFn) -> tuple[str, ViewPlan]:
    """A query and the plan it must give; names quoted, so that they arrive as written."""
    outputs = draw(st.lists(names, min_size=2, max_size=6, unique_by=str.lower))
    cut = draw(st.integers(1, len(outputs) - 1))
    columns = draw(st.lists(names, min_size=cut, max_size=cut, unique_by=str.lower))
    keys = tuple(zip(columns, outputs[:cut], strict=True))
    calls = tuple(
        AggCall(kind, column, output)
        for output in outputs[cut:]
        for kind, column in [
            draw(
                st.one_of(
                    st.just((AggKind.COUNT, None)),
                    st.tuples(st.sampled_from(AggKind), names),
                )
            )
        ]
    )
    shown = {output: f'"{column}" AS "{output}"' for column, output in keys} | {
        c.output: f'{c.kind}("{c.column}") "{c.output}"'.replace('"None"', "*") for c in calls
    }
    order = draw(st.permutations(outputs))
    query = f"SELECT {', '.join(shown[name] for name in order)} FROM t GROUP BY " + ", ".join(
        draw(st.sampled_from([f'"{column}"', f't."{column}"', str(order.index(output) + 1)]))
        for column, output in keys
    )
    calls = tuple(sorted(calls, key=lambda call: order.index(call.output)))
    definition = f"CREATE MATERIALIZED VIEW v AS\n{query}"
    return query, ViewPlan("p", "v", "t", keys, calls, tuple(order), definition)


@given(views())
def test_generated_views_keep_their_names(case: tuple[str, ViewPlan]) -> None:
    query, expected = case
    assert view(query) == expected
