"""What becomes of a table when its source's columns change; judged by attnum, not by name."""

from dataclasses import dataclass

import pytest

from ops.backfill.cdc.evolve import Evolved, Origin, evolve
from ops.common.schema import INT8, TEXT, Column, Schema

SCHEMA = Schema((Column("id", INT8, False), Column("a", TEXT), Column("b", TEXT)), ("id",))


@dataclass(frozen=True)
class Attribute:
    name: str
    attnum: int
    type: str | None = "text"
    nullable: bool = True
    missing: str | None = None
    computed: bool = False
    type_oid: int = 25
    modifier: int = -1


ID, A, B = Attribute("id", 1, "int8"), Attribute("a", 2), Attribute("b", 3)


def origin(*, follows_all: bool = True, **changed: object) -> Origin:
    given = {"unselected": (), "attnums": {"id": 1, "a": 2, "b": 3}, "names": {}, **changed}
    return Origin(7, "d", follows_all=follows_all, **given)  # type: ignore[arg-type]


def evolved(*found: Attribute, sent: tuple[str, ...] | None = None, **changed: object) -> Evolved:
    names = tuple(a.name for a in found) if sent is None else sent
    result = evolve(SCHEMA, origin(**changed), names, found, version=2)  # type: ignore[arg-type]
    assert isinstance(result, Evolved), result
    assert Origin.from_json(result.origin.to_json()) == result.origin
    assert Schema.from_json(result.schema.to_json()) == result.schema
    return result


def stopped(*found: Attribute, sent: tuple[str, ...] | None = None) -> str:
    names = tuple(a.name for a in found) if sent is None else sent
    result = evolve(SCHEMA, origin(), names, found, version=2)
    assert isinstance(result, str)
    return result


def test_an_added_column_has_the_default_it_came_with() -> None:
    after = evolved(ID, A, B, Attribute("c", 4, missing="x"), Attribute("d", 5))
    assert after.schema.columns[:3] == SCHEMA.columns
    assert after.schema.columns[3:] == (
        Column("c", TEXT, added=2, default="x"),
        Column("d", TEXT, added=2),
    )
    assert after.origin.attnums == {"id": 1, "a": 2, "b": 3, "c": 4, "d": 5}


def test_a_table_of_listed_columns_leaves_a_new_one_out() -> None:
    after = evolved(ID, A, B, Attribute("c", 4), follows_all=False)
    assert after.schema == SCHEMA and after.origin.unselected == ("c",)


def test_what_the_stream_has_not_sent_yet_is_left_for_later() -> None:
    after = evolved(ID, A, Attribute("c", 4), sent=("id", "a", "b"))
    assert after.schema == SCHEMA, "neither dropped nor added"
    assert evolved(ID, A, B, sent=("id", "a", "b", "gone")).origin.unselected == ("gone",)


def test_a_dropped_column_is_gone_and_its_name_is_taken() -> None:
    after = evolved(ID, B)
    assert after.schema.names == ("id", "b") and after.origin.retired == ("a",)
    again = evolve(
        after.schema, after.origin, ("id", "b", "a"), (ID, B, Attribute("a", 4)), version=3
    )
    assert isinstance(again, Evolved)
    assert again.schema.names == ("id", "b", "a_4") and again.origin.names == {"a_4": "a"}


def test_a_renamed_column_stays_what_it_is() -> None:
    after = evolved(ID, Attribute("c", 2), B)
    assert after.schema == SCHEMA and after.origin.names == {"a": "c"}
    swapped = evolved(ID, Attribute("b", 2), Attribute("a", 3))
    assert swapped.schema == SCHEMA and swapped.origin.names == {"a": "b", "b": "a"}
    # A name that another column had: the new column is told from it in files.
    taken = evolved(ID, Attribute("c", 2), B, Attribute("a", 4))
    assert taken.schema.names == ("id", "a", "b", "a_4")
    assert taken.origin.names == {"a": "c", "a_4": "a"}


def test_a_row_of_before_an_added_column_has_its_default() -> None:
    schema = Schema((*SCHEMA.columns, Column("c", TEXT, added=2, default="x")), ("id",))
    known = origin(attnums={"id": 1, "a": 2, "b": 3, "c": 4})
    found = (ID, A, B, Attribute("c", 4, missing="x"))
    after = evolve(schema, known, ("id", "a", "b"), found, version=3)
    assert isinstance(after, Evolved)
    assert after.schema == schema and after.absent == ("c",)


@pytest.mark.parametrize(
    ("found", "sent", "why"),
    [
        ((ID, A, B, Attribute("c", 4, computed=True)), None, "differs from row to row"),
        ((ID, A, B, Attribute("c", 4, None)), None, "its type is not supported"),
        ((A, B), None, "column id of its key was dropped"),
        ((ID, Attribute("d", 2), B), ("id", "c", "b"), "renamed to d amid other changes"),
    ],
)
def test_what_cannot_be_followed_stops(
    found: tuple[Attribute, ...], sent: tuple[str, ...] | None, why: str
) -> None:
    assert why in stopped(*found, sent=sent)


def test_a_table_bound_before_columns_were_numbered_stops() -> None:
    old = Origin.from_json({"oid": 7, "identity": "d", "unselected": []})
    assert evolve(SCHEMA, old, ("id", "a"), (ID, A), version=2) == "column id is gone or renamed"
