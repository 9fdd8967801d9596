"""What is written down about a schema reads back as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.common.schema import Column, DataType, Kind, Schema, quote, spark_type, struct_ddl

PLAIN = [DataType(kind) for kind in Kind if kind not in (Kind.NUMERIC, Kind.OTHER)]
NAMES = ["jsonb", "int4[]", "public.mood", '"a(b".c[]', '"x""y".")"']
NAMED = [DataType(kind, name=name) for kind in (Kind.TEXT, Kind.OTHER) for name in NAMES]


@st.composite
def numerics(draw: st.DrawFn) -> DataType:
    precision = draw(st.integers(1, 38))
    return DataType(Kind.NUMERIC, precision, draw(st.integers(0, precision)))


TYPES = st.sampled_from(PLAIN + NAMED) | numerics()


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    names = draw(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6, unique=True))
    columns = tuple(Column(name, draw(TYPES), draw(st.booleans())) for name in names)
    key = draw(st.lists(st.sampled_from(names), unique=True, max_size=3))
    return Schema(columns, tuple(key))


@given(TYPES)
def test_a_type_is_what_it_says(data_type: DataType) -> None:
    assert DataType.parse(str(data_type)) == data_type


@pytest.mark.parametrize(
    "text",
    [
        "int16",
        "numeric",
        "numeric(1",
        "numeric(a,b)",
        "varchar",
        "other",
        "other()",
        "other(a",
        "date(a)",
    ],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        DataType.parse(text)


@given(schemas())
def test_a_schema_survives_json(schema: Schema) -> None:
    stored = json.dumps(schema.to_json())
    assert Schema.from_json(json.loads(stored)) == schema


@given(schemas())
def test_the_key_is_in_key_order(schema: Schema) -> None:
    assert tuple(c.name for c in schema.key_columns) == schema.key
    assert tuple(schema.names[i] for i in schema.key_positions) == schema.key


def test_the_stored_form_is_pinned() -> None:
    schema = Schema((Column("a", DataType(Kind.NUMERIC, 12, 2), False),), ("a",))
    assert schema.to_json() == {"columns": [["a", "numeric(12,2)", False]], "key": ["a"]}


def test_names_are_quoted_for_spark() -> None:
    assert quote("a`b") == "`a``b`"
    columns = (Column("a b", DataType(Kind.TIMESTAMP)), Column("n", DataType(Kind.NUMERIC, 5, 2)))
    assert struct_ddl(columns) == "STRUCT<`a b`: TIMESTAMP_NTZ, `n`: DECIMAL(5,2)>"


def test_every_type_has_a_name_in_spark() -> None:
    assert len({spark_type(t) for t in PLAIN}) == len(PLAIN)
