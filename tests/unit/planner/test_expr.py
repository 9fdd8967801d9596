"""Expressions have the types Postgres gives them; what is not there is refused by name."""

import psycopg
import pytest

from ops.planner.expr import type_of
from ops.planner.expr_types import shown
from tests.support.expressions import bound, expressions, make_rows, postgres_values


def test_types_are_those_of_postgres(database: str) -> None:
    texts = expressions()
    found = [shown(type_of(bound(text))) for text in texts]
    with psycopg.connect(database, autocommit=True) as connection:
        make_rows(connection)
        typed = ", ".join(f"pg_typeof({text})::text" for text in texts)
        expected = connection.execute(f"SELECT {typed} FROM t WHERE id = 3").fetchone()
        # Each is defined over all the rows, or Spark's test of their values would say nothing.
        assert all(len(postgres_values(connection, text)) == 8 for text in texts)
    assert expected is not None
    # On its own a quoted text has no type yet; as a column of a view it is text.
    wanted = ["text" if kind == "unknown" else kind for kind in expected]
    differing = {t: (a, b) for t, a, b in zip(texts, found, wanted, strict=True) if a != b}
    assert differing == {}


REFUSED = {
    "w / 7": "the digits of a quotient of numerics without precision are not known here",
    "m / 3 / 2": "the digits of a quotient of numerics without precision are not known here",
    "i + t": "there is no operator integer + text here",
    "i = t": "the types of the two sides of = do not go together: integer, text",
    "round(i)": "there is no function round(integer) here; cast the argument to numeric",
    "sign(i)": "cast the argument to numeric: for an integer, Postgres answers in floating point",
    "w::text": "the text of a numeric whose digits after the point may vary",
    "(m / 3)::text": "the text of a numeric whose digits after the point may vary",
    "coalesce(m, n)::text": "the text of a numeric whose digits after the point may vary",
    "m || w": "there is no operator numeric || numeric here",
    "w * w": "a product of numeric(38,18) and numeric(38,18) has 36 digits after the point",
    "i < j = b": "a comparison beside another comparison or IS needs parentheses",
    "i AND b": "what AND, OR, NOT and IS TRUE take must be boolean, not integer",
    "CASE WHEN i THEN 1 END": "what CASE WHEN takes must be boolean, not integer",
    "CASE WHEN b THEN 1 ELSE t END": "the types of CASE do not go together: integer, text",
    "t LIKE u": "LIKE takes a quoted pattern only",
    "t LIKE 'x\\'": "a LIKE pattern must not end with its escape character",
    "t ~ 'x'": "is not supported yet",
    "to_char(d, 'YYYY')": "is not supported yet",
    "power(i, 2)": "is not supported yet",
    "sqrt(m)": "the function sqrt is not supported yet",
    "initcap(t)": "is not supported yet",
    "i::uuid": "the type UUID is not supported yet",
    "t::date": "a cast from text to date is not supported yet",
    "'x'::int": "'x' is not integer, or not in its plain form",
    "'2024-02-30'::date": "'2024-02-30' is not date, or not in its plain form",
    "d = 'tomorrow'": "'tomorrow' is not date, or not in its plain form",
    "e - z": "there is no operator timestamp without time zone - timestamp with time zone here",
    "e + INTERVAL '1 day'": "an interval is not supported yet",
    "extract(century FROM d)": "extract(century from date) is not supported yet",
    "date_trunc('decade', e)": "date_trunc takes one of these units",
    "now()": "is not supported yet",
    "random()": "is not supported yet",
    "(SELECT 1)": "a subquery in an expression is not supported yet",
    "i IN (SELECT 1)": "is not supported yet",
    "sum(i) OVER ()": "a window function (OVER) is not supported yet",
    "123456789012345678901234567890123456789": "does not fit into 38 digits",
    "i & 1": "is not supported yet",
    "ARRAY[1]": "is not supported yet",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(AssertionError) as caught:
        bound(text)
    assert REFUSED[text] in str(caught.value)
