"""What a table looks like: columns, their types, and the key.

    Postgres                        kind            in the lake       its value there
    int2 int4 int8                  the same        SMALLINT INT BIGINT
    float4 float8                   the same        FLOAT DOUBLE      NaN, infinities and -0 as well
    numeric(p,s), p up to 38        numeric(p,s)    DECIMAL(p,s)
    numeric                         numeric(38,18)  DECIMAL(38,18)    more digits, NaN: refused
    text varchar(n) char(n)         text            STRING            char keeps its blanks
    enum citext json xml name       text(its name)  STRING            their text
    bool                            bool            BOOLEAN
    bytea                           bytea           BINARY
    date                            date            DATE              days since 1970-01-01
    timestamp                       timestamp       TIMESTAMP_NTZ     microseconds since then
    timestamptz                     timestamptz     TIMESTAMP         microseconds since then, UTC
    a domain                        that of its base type
    uuid time timetz interval jsonb
    inet cidr macaddr bit money     other(its name) STRING            Postgres's own text of it
    arrays ranges composites, …

Nothing is lost on the way and nothing is rounded: what has no exact place in Spark is kept as the
text Postgres prints, always under the same settings (`resources.postgres_link.SESSION`). The
integers of dates and timestamps reach beyond the years 1 to 9999; `infinity` is their greatest and
`-infinity` their least integer, as Postgres itself has it. A numeric column can be kept as text by
the table's option numeric.as = 'text': it is other(numeric) then.

A name is that of pg_type where it is Postgres's own (`jsonb`, `int4[]`), else with its schema and
quoted where it must be (`public.mood`).

Pure.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never


class Kind(StrEnum):
    INT2 = "int2"
    INT4 = "int4"
    INT8 = "int8"
    FLOAT4 = "float4"
    FLOAT8 = "float8"
    NUMERIC = "numeric"
    TEXT = "text"
    """Also what Postgres keeps and sends as text: enums, json, citext; `name` says which."""
    BOOL = "bool"
    BYTEA = "bytea"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    OTHER = "other"
    """Any other type, kept as the text Postgres prints; `name` says which."""


INTEGERS = frozenset({Kind.INT2, Kind.INT4, Kind.INT8})
FLOATS = frozenset({Kind.FLOAT4, Kind.FLOAT8})
STRINGS = frozenset({Kind.TEXT, Kind.OTHER})
DAY_INFINITY = 2**31 - 1
MICRO_INFINITY = 2**63 - 1
"""`infinity` as a date and as a timestamp; `-infinity` is -INFINITY - 1."""


@dataclass(frozen=True, slots=True)
class DataType:
    """`precision` and `scale` are set for numeric only.

    `name` is the type's name in Postgres, for other and for a text that is not just text.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    name: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.NUMERIC:
            return f"numeric({self.precision},{self.scale})"
        return f"{self.kind.value}({self.name})" if self.name else self.kind.value

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.name or str(self)

    @staticmethod
    def parse(text: str) -> "DataType":
        """Inverse of `str`."""
        word, opened, rest = text.partition("(")
        kind, inside = Kind(word), rest.removesuffix(")")
        if not opened and kind not in (Kind.NUMERIC, Kind.OTHER):
            return DataType(kind)
        if kind is Kind.NUMERIC and inside != rest:
            precision, scale = inside.split(",")
            return DataType(kind, int(precision), int(scale))
        if kind not in STRINGS or inside in ("", rest):
            raise ValueError(f"{text!r} is no type")
        return DataType(kind, name=inside)


INT8 = DataType(Kind.INT8)
TEXT = DataType(Kind.TEXT)
BOOL = DataType(Kind.BOOL)
NUMERIC = DataType(Kind.NUMERIC, 38, 18)
"""What a numeric without precision is kept as; a value that does not fit stops the table."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """`key` names the columns that identify a row, in key order; all of them are in `columns`."""

    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        return tuple(self.column(name) for name in self.key)

    @property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.names.index(name) for name in self.key)

    def column(self, name: str) -> Column:
        return self.columns[self.names.index(name)]

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": [[c.name, str(c.type), c.nullable] for c in self.columns],
            "key": list(self.key),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Schema":
        columns = tuple(Column(n, DataType.parse(t), null) for n, t, null in data["columns"])
        return Schema(columns, tuple(data["key"]))


def spark_type(data_type: DataType) -> str:
    """Return the type's name in Spark SQL."""
    match data_type.kind:
        case Kind.INT2:
            return "SMALLINT"
        case Kind.INT4:
            return "INT"
        case Kind.INT8:
            return "BIGINT"
        case Kind.FLOAT4:
            return "FLOAT"
        case Kind.FLOAT8:
            return "DOUBLE"
        case Kind.NUMERIC:
            return f"DECIMAL({data_type.precision},{data_type.scale})"
        case Kind.TEXT | Kind.OTHER:
            return "STRING"
        case Kind.BOOL:
            return "BOOLEAN"
        case Kind.BYTEA:
            return "BINARY"
        case Kind.DATE:
            return "DATE"
        case Kind.TIMESTAMP:
            return "TIMESTAMP_NTZ"
        case Kind.TIMESTAMPTZ:
            return "TIMESTAMP"
        case _:
            assert_never(data_type.kind)


def quote(name: str) -> str:
    """Return a column name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def struct_ddl(columns: tuple[Column, ...]) -> str:
    fields = ", ".join(f"{quote(c.name)}: {spark_type(c.type)}" for c in columns)
    return f"STRUCT<{fields}>"
