"""What a table looks like: columns, their types, and the key.

Pure.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never


class Kind(StrEnum):
    INT2 = "int2"
    INT4 = "int4"
    INT8 = "int8"
    NUMERIC = "numeric"
    TEXT = "text"
    BOOL = "bool"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"


INTEGERS = frozenset({Kind.INT2, Kind.INT4, Kind.INT8})


@dataclass(frozen=True, slots=True)
class DataType:
    """`precision` and `scale` are set for numeric only."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.kind is Kind.NUMERIC:
            return f"numeric({self.precision},{self.scale})"
        return self.kind.value

    @staticmethod
    def parse(text: str) -> "DataType":
        """Inverse of `str`."""
        name, _, rest = text.partition("(")
        if not rest:
            return DataType(Kind(name))
        precision, scale = rest.rstrip(")").split(",")
        return DataType(Kind(name), int(precision), int(scale))


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
        case Kind.NUMERIC:
            return f"DECIMAL({data_type.precision},{data_type.scale})"
        case Kind.TEXT:
            return "STRING"
        case Kind.BOOL:
            return "BOOLEAN"
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
