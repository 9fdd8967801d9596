"""Columns of tables once those of their source are known."""

from dataclasses import replace

import pytest

from ops.common.errors import SourceNotReady, Unsupported
from ops.common.schema import Column, DataType, Schema
from ops.planner.bind import bind_table
from ops.planner.parse import parse_pipeline
from ops.planner.plan import TablePlan

SOURCE = (
    "CREATE SOURCE s WITH (connector='postgres-cdc', hostname='h', username='u', "
    "database.name='d');"
)


def schema(*columns: str, key: str = "id") -> Schema:
    """`"name type"` is nullable, `"name type!"` is not."""
    made = []
    for text in columns:
        name, _, kind = text.rpartition(" ")
        made.append(Column(name, DataType.parse(kind.rstrip("!")), not kind.endswith("!")))
    return Schema(tuple(made), tuple(key.split()))


FOUND = schema("id int4!", "region text", "amount numeric(12,2)!", "day date")


def table(columns: str) -> TablePlan:
    sql = f"{SOURCE} CREATE TABLE orders ({columns}) FROM s TABLE 'public.orders'"
    return parse_pipeline("p", sql).tables[0]


def test_star_takes_all() -> None:
    assert bind_table(table("*"), FOUND) == FOUND


def test_a_list_selects_and_reorders() -> None:
    bound = bind_table(table("amount numeric(12,2), id int PRIMARY KEY"), FOUND)
    assert bound == schema("amount numeric(12,2)!", "id int4!")


TABLES_REFUSED = {
    "id int PRIMARY KEY, x int": "table orders: public.orders has no column 'x'; "
    "there are: id, region, amount, day",
    "id smallint PRIMARY KEY": "table orders: column id is declared int2, "
    "but is int4 in public.orders; declare it int4",
    "id int PRIMARY KEY, amount numeric(12,1)": "table orders: column amount is declared "
    "numeric(12,1), but is numeric(12,2) in public.orders; declare it numeric(12,2)",
    "id int PRIMARY KEY, amount numeric(12,3)": "table orders: column amount is declared "
    "numeric(12,3), but is numeric(12,2) in public.orders; declare it numeric(12,2)",
    "id int PRIMARY KEY, day timestamp": "table orders: column day is declared timestamp, "
    "but is date in public.orders; declare it date",
    "id int PRIMARY KEY, region text NOT NULL": "table orders: column region is declared "
    "NOT NULL, but may be NULL in public.orders; leave NOT NULL out",
    "id int, region text, PRIMARY KEY (id, region)": "table orders declares PRIMARY KEY "
    "(id, region), but that of public.orders is (id); declare the source's key",
}


@pytest.mark.parametrize("columns", TABLES_REFUSED)
def test_tables_refused(columns: str) -> None:
    with pytest.raises(Unsupported) as caught:
        bind_table(table(columns), FOUND)
    assert str(caught.value) == TABLES_REFUSED[columns]


def test_a_table_needs_a_key() -> None:
    with pytest.raises(SourceNotReady, match=r"public\.orders has no primary key.*ALTER TABLE"):
        bind_table(table("*"), replace(FOUND, key=()))


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("_tg_x int4", "column '_tg_x' of public.orders begins with _tg_"),
        ("a b int4", "column 'a b' of public.orders holds ' '"),
        ("Region text", "columns 'region' and 'Region' of public.orders differ only in case"),
    ],
)
def test_columns_the_lake_cannot_hold(column: str, why: str) -> None:
    found = schema("id int4!", "region text", column)
    with pytest.raises(Unsupported) as caught:
        bind_table(table("*"), found)
    assert str(caught.value).startswith(why)
    listed = bind_table(table("id int PRIMARY KEY, region text"), found)
    assert listed.names == ("id", "region")
