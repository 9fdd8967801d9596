"""What a view's query may be: its shape, refused by name and place where it is another."""

import pytest

from ops.common.errors import Unsupported
from tests.support.views import view_plan


def refused(query: str) -> str:
    with pytest.raises(Unsupported) as caught:
        view_plan(query)
    return str(caught.value)


NOT_YET = {
    "SELECT a, count(*) FROM t JOIN u ON true GROUP BY a": ("JOIN", 27, ""),
    "SELECT a, count(*) FROM t, u GROUP BY a": ("JOIN", 26, ""),
    "SELECT a, count(*) FROM t GROUP BY a ORDER BY a": ("ORDER BY", 38, ""),
    "SELECT a, count(*) FROM t GROUP BY a LIMIT 1": ("LIMIT", 38, ""),
    "SELECT a, count(*) FROM t GROUP BY a OFFSET 1": ("OFFSET", 38, ""),
    "SELECT a, count(*) INTO x FROM t GROUP BY a": ("INTO", 20, ""),
    "SELECT a, count(*) FROM t FOR UPDATE GROUP BY a": ("FOR UPDATE", 27, ""),
    "SELECT a, count(*) FROM t GROUP BY a WINDOW w AS ()": ("WINDOW", 38, ""),
    "SELECT a, count(*) FROM t GROUP BY a UNION ALL SELECT 1": ("UNION", 38, ""),
    "SELECT count(*) GROUP BY a": ("a SELECT without FROM", 1, ""),
    "SELECT a FROM (SELECT a FROM t LIMIT 1) x": ("LIMIT", 23, ""),
    "SELECT a FROM (VALUES (1)) x": ("FROM of anything but a table", 24, ""),
    "SELECT a, count(*) FROM t TABLESAMPLE SYSTEM (1) GROUP BY a": ("TABLESAMPLE", 25, ""),
    "SELECT a, count(*) FROM ONLY t GROUP BY a": ("FROM ONLY", 30, ""),
    "SELECT a, count(*) FROM t GROUP BY ROLLUP(a)": ("ROLLUP", 36, ""),
    "SELECT a, count(*) FROM t GROUP BY GROUPING SETS ((a), ())": ("GROUPING SETS", 36, ""),
    "SELECT a, count(*) FROM t GROUP BY ALL": ("GROUP BY ALL", 27, ""),
    "SELECT DISTINCT ON (a) a FROM t": ("DISTINCT ON", 1, ""),
    "WITH RECURSIVE x AS (SELECT a FROM t) SELECT a FROM x": ("WITH RECURSIVE", 16, ""),
    "SELECT date_part('year', a) AS y FROM t": (
        "the function date_part",
        8,
        "; write extract(… FROM …): date_part answers in floating point",
    ),
}


@pytest.mark.parametrize("query", NOT_YET)
def test_not_yet(query: str) -> None:
    what, column, hint = NOT_YET[query]
    expected = f"line 4, column {column}: {what} is not supported yet in view v{hint}"
    assert refused(query) == expected


WRONG = {
    "SELECT a, count(*) FROM public.t GROUP BY a": "column 32: a schema before t has no meaning "
    "here; write the name alone",
    "SELECT a, count(*) FROM nope GROUP BY a": "column 25: view v reads 'nope', which is not "
    "defined before it; tables and views before it: t",
    "SELECT a, count(*) FROM s GROUP BY a": "column 25: view v reads s, a source; "
    "tables and views before it: t",
    "WITH x AS (SELECT a FROM x) SELECT a FROM x": "column 26: view v reads 'x', which is not "
    "defined before it; tables and views before it: t",
    "SELECT a count(*) FROM t GROUP BY a": "column 15: syntax error at '('",
    "SELECT a, count(* FROM t GROUP BY a": "column 19: syntax error at 'FROM'",
    "SELECT a, FROM t GROUP BY a": "column 9: syntax error: a column is missing",
    "SELECT a, count(*) FROM t GROUP BY a,": "column 37: syntax error: a column is missing",
    "SELECT a, count(*) FROM t GROUP BY a EMIT ON WINDOW CLOSE": "column 38: "
    "EMIT ON WINDOW CLOSE is not supported yet",
}


@pytest.mark.parametrize("query", WRONG)
def test_wrong(query: str) -> None:
    assert refused(query).startswith(f"line 4, {WRONG[query]}")


def test_the_upstream_is_what_all_the_queries_come_down_to() -> None:
    first = "WITH x AS (SELECT a FROM t), y AS (SELECT a FROM x WHERE a > 1)"
    assert view_plan(f"{first} SELECT a FROM (SELECT a FROM y) z").upstream == "t"
    second = "CREATE MATERIALIZED VIEW w AS SELECT a FROM v"
    plan = view_plan(f"SELECT a FROM t;\n{second}")
    assert (plan.name, plan.upstream) == ("w", "v")
