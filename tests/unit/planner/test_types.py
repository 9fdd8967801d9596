"""Types as people write them."""

import pytest

from ops.common.errors import Unsupported
from ops.common.schema import Column, DataType, Schema
from ops.planner.bind import bind_table
from ops.planner.parse import parse_pipeline
from ops.planner.types import is_declared, parse_type

SOURCE = """CREATE SOURCE s WITH (connector = 'postgres-cdc', hostname = 'h', username = 'u',
  database.name = 'd');
"""
WRITTEN = {
    "REAL": "float4",
    "double  precision": "float8",
    "bytea": "bytea",
    "numeric(5,-2)": "numeric(7,0)",
    "numeric(3, 5)": "numeric(5,5)",
    "character varying(20)": "text",
    "char(3)": "text",
    "timestamp(3) with time zone": "timestamptz",
    "timestamp (3) without time zone": "timestamp",
    "time(3) with time zone": "other(timetz)",
    "time": "other(time)",
    "interval day to second": "other(interval)",
    "interval(3)": "other(interval)",
    "int[]": "other(int4[])",
    "double precision[3][]": "other(float8[])",
    "numeric(12,2)[]": "other(numeric[])",
    "varchar(20)[]": "other(varchar[])",
    "bit varying(5)": "other(varbit)",
    "JSONB": "other(jsonb)",
    "mood": "other(mood)",
    'public."My Mood"[]': 'other(public."My Mood"[])',
}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_written_type_is_ours(written: str) -> None:
    assert str(parse_type(written)) == WRITTEN[written]


def test_numerics_as_text_have_any_size() -> None:
    assert str(parse_type("numeric(50,2)", text_numerics=True)) == "other(numeric)"
    assert parse_type("numeric(50,2)") is None
    assert parse_type("numeric(30,-9)") is None


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("int4", "int4", True),
        ("int4", "int8", False),
        ("other(mood)", "text(public.mood)", True),
        ("other(public.mood)", "text(public.mood)", True),
        ("other(sales.mood)", "text(public.mood)", False),
        ("other(mood[])", "other(public.mood[])", True),
        ("other(mood)", "text", False),
        ("text", "text(json)", False),
    ],
)
def test_a_name_may_leave_its_schema_out(wanted: str, found: str, same: bool) -> None:
    assert is_declared(DataType.parse(wanted), DataType.parse(found)) is same


def test_a_declared_column_has_the_type_of_the_source() -> None:
    listed = "(id uuid PRIMARY KEY, m mood, t interval day to second, n numeric(50,2), a int[])"
    text = f"CREATE TABLE t {listed} FROM s TABLE 'y' WITH (numeric.as = 'text')"
    (plan,) = parse_pipeline("p", SOURCE + text).tables
    assert plan.text_numerics
    types = {
        "id": "other(uuid)",
        "m": "text(public.mood)",
        "t": "other(interval)",
        "n": "other(numeric)",
        "a": "other(int4[])",
    }
    found = Schema(
        tuple(Column(n, DataType.parse(t), n != "id") for n, t in types.items()), ("id",)
    )
    assert bind_table(plan, found) == found
    other = Schema(
        (found.columns[0], Column("m", DataType.parse("text")), *found.columns[2:]), ("id",)
    )
    with pytest.raises(Unsupported, match="column m is declared mood, but is text in"):
        bind_table(plan, other)


def test_columns_are_left_out_by_name() -> None:
    names = 'a, "B, ""c""" ,D'
    text = f"CREATE TABLE t (*) FROM s TABLE 'y' WITH (columns.exclude = '{names}')"
    assert parse_pipeline("p", SOURCE + text).tables[0].excluded == ("a", 'B, "c"', "d")
    for wrong in ("a,", "a b", "", '"'):
        with pytest.raises(Unsupported, match=r"columns\.exclude must be"):
            parse_pipeline("p", SOURCE + text.replace(names, wrong))
    with pytest.raises(Unsupported, match=r"goes with \(\*\) only"):
        parse_pipeline("p", SOURCE + text.replace("(*)", "(a int PRIMARY KEY)"))
