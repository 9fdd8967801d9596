"""A relation's columns -> one function that turns TupleData into a row.

TupleData is an Int16 count, then per column a kind byte and, for `b` and `t`, an Int32 length and
the value: `n` NULL, `u` an unchanged TOAST value, `t` text, `b` binary.

A stream of changes is decoded by the row, hundreds of thousands a second, so the usual row is read
by a function written for its relation: a run of columns that are NOT NULL and of fixed width is
one `unpack_from` whose headers are compared with constants, the rest is read in place without a
look-up. For (id int8, region text, paid bool NOT NULL) it reads, in essence:

    h0, v0, k1, n1 = u0(m, p)              # header and value of id, header of region
    if h0 != INT8_HEADER or k1 != 98: return slow(m, p)
    p += 18; v1 = m[p:p + n1].decode(); p += n1
    h2, v2 = u1(m, p)
    …
    return (v0, v1, v2), p + 6

A stream of text is read likewise, value by value.

Whatever it does not expect (NULL where none should be, the form that is not the stream's, unchanged
TOAST, a value that may have to be refused, a tuple too short) it leaves, by some ValueError,
struct.error or IndexError, to the slow reader, which handles every case and names the column. So a
row of the fast reader never holds UNCHANGED.

Pure.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from ops.backfill.cdc.pg_values import (
    DATE_MAX,
    DATE_MIN,
    EPOCH_DAYS,
    EPOCH_MICROS,
    MICROS_MAX,
    MICROS_MIN,
    NAN,
    ValueRefused,
    binary_decoder,
    days,
    micros,
    text_decoder,
)
from ops.common.change import Row
from ops.common.schema import FLOATS, INTEGERS, STRINGS, Column, DataType, Kind

ReadTuple = Callable[[bytes, int], tuple[Row, int]]
"""(message, where the Int16 count stands) -> (row, where the tuple ends)"""

NULL, UNCHANGED_TOAST, TEXT, BINARY = b"nutb"
_LENGTH = Struct(">I").unpack_from
_WIDTHS = {
    Kind.INT2: (2, "h"),
    Kind.INT4: (4, "i"),
    Kind.INT8: (8, "q"),
    Kind.FLOAT4: (4, "f"),
    Kind.FLOAT8: (8, "d"),
    Kind.BOOL: (1, "?"),
    Kind.DATE: (4, "i"),
    Kind.TIMESTAMP: (8, "q"),
    Kind.TIMESTAMPTZ: (8, "q"),
}


class Unusual(ValueError):
    """A tuple that the fast reader leaves to the slow one."""


class _Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()
"""Stands in a row for a large value that the source did not send again: a hole, never a NULL."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as the stream sends it; `bound` is None for one that nobody asked for."""

    name: str
    bound: Column | None


def slow_reader(columns: Sequence[SourceColumn], order: Sequence[int]) -> ReadTuple:
    """Return the reader of every case; `order` lists the columns that make up the row."""
    decoders = [
        (c.name, None, None)
        if c.bound is None
        else (c.name, binary_decoder(c.bound.type), text_decoder(c.bound.type))
        for c in columns
    ]

    def read(message: bytes, position: int) -> tuple[Row, int]:
        position += 2
        values: list[Any] = []
        for name, from_binary, from_text in decoders:
            kind = message[position]
            if kind in (NULL, UNCHANGED_TOAST):
                values.append(None if kind == NULL else UNCHANGED)
                position += 1
                continue
            start = position + 5
            position = start + _LENGTH(message, position + 1)[0]
            decode = from_binary if kind == BINARY else from_text
            if decode is None:
                values.append(None)
                continue
            try:
                values.append(decode(message[start:position]))
            except ValueError as error:
                raise ValueRefused(f"column {name}: {error}") from error
        if position > len(message):
            raise IndexError("the tuple is cut short")
        return tuple(values[i] for i in order), position

    return read


def fast_reader(
    columns: Sequence[SourceColumn], order: Sequence[int], *, binary: bool = True
) -> ReadTuple:
    """Return the reader written for these columns; where it returns, `slow_reader` agrees.

    `binary` says which form of a value is the usual one.
    """
    names: dict[str, Any] = {"Unusual": Unusual, "NAN": NAN, "days": days, "micros": micros}
    writer = _Writer(names)
    for index, column in enumerate(columns):
        if binary:
            writer.column(index, column.bound)
        else:
            writer.text_column(index, column.bound)
    writer.flush()
    row = "".join(f"v{i}, " for i in order)
    source = "\n    ".join(
        [
            "def read(m, p):",
            "p += 2",
            *writer.lines,
            "if p > len(m): raise Unusual",
            f"return ({row}), p",
        ]
    )
    exec(source, names)
    fast: ReadTuple = names["read"]
    return fast


class _Writer:
    """Writes the body of a fast reader; `m` is the message, `p` where the next column starts."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.lines: list[str] = []
        self._names = names
        self._format = ""
        self._targets: list[str] = []
        self._checks: list[str] = []
        self._after: list[str] = []

    def column(self, index: int, bound: Column | None) -> None:
        if bound is None:
            self._skip(index)
        elif bound.type.kind not in _WIDTHS:
            self._variable(index, bound)
        elif bound.nullable:
            self._nullable_fixed(index, bound.type.kind)
        else:
            self._fixed(index, bound.type.kind)

    def text_column(self, index: int, bound: Column | None) -> None:
        if bound is None:
            self._skip(index)
            return
        self._one_value(index, TEXT, self._from_text(bound.type))
        self._null_or_unusual(index)

    def flush(self) -> None:
        """Write out the run of columns gathered so far as one unpack and one check."""
        if not self._format:
            return
        layout = Struct(">" + self._format)
        unpack = self._name("u", layout.unpack_from)
        self.lines.append(f"{', '.join(self._targets)}, = {unpack}(m, p)")
        self.lines.append(f"if {' or '.join(self._checks)}: raise Unusual")
        self.lines.append(f"p += {layout.size}")
        self.lines.extend(self._after)
        self._format, self._targets, self._checks, self._after = "", [], [], []

    def _fixed(self, index: int, kind: Kind) -> None:
        width, code = _WIDTHS[kind]
        self._format += "5s" + code
        self._targets += [f"h{index}", f"v{index}"]
        self._checks.append(f"h{index} != {_header(width)!r}")
        self._after += _finish(index, kind)

    def _nullable_fixed(self, index: int, kind: Kind) -> None:
        self.flush()
        width, code = _WIDTHS[kind]
        unpack = self._name("u", Struct(">" + code).unpack_from)
        self.lines.append(f"if m[p:p + 5] == {_header(width)!r}:")
        self.lines.append(f"    v{index}, = {unpack}(m, p + 5)")
        self.lines.append(f"    p += {width + 5}")
        self.lines += [f"    {line}" for line in _finish(index, kind)]
        self._null_or_unusual(index)

    def _variable(self, index: int, bound: Column) -> None:
        value = self._value(bound.type)
        if bound.nullable:
            self.flush()
            self._one_value(index, BINARY, value)
            self._null_or_unusual(index)
            return
        self._format += "BI"
        self._targets += [f"k{index}", f"n{index}"]
        self._checks.append(f"k{index} != {BINARY}")
        self.flush()
        self.lines.append(f"e = p + n{index}")
        self.lines.append(f"v{index} = {value.format(part='m[p:e]')}")
        self.lines.append("p = e")

    def _one_value(self, index: int, kind: int, value: str) -> None:
        self.lines.append(f"if m[p] == {kind}:")
        self.lines.append(f"    e = p + 5 + {self._name('length', _LENGTH)}(m, p + 1)[0]")
        self.lines.append(f"    v{index} = {value.format(part='m[p + 5:e]')}")
        self.lines.append("    p = e")

    def _skip(self, index: int) -> None:
        self.flush()
        length = self._name("length", _LENGTH)
        self.lines.append(
            f"p += 1 if m[p] == {NULL} or m[p] == {UNCHANGED_TOAST} else 5 + {length}(m, p + 1)[0]"
        )

    def _null_or_unusual(self, index: int) -> None:
        self.lines.append(f"elif m[p] == {NULL}:")
        self.lines.append(f"    v{index} = None")
        self.lines.append("    p += 1")
        self.lines.append("else: raise Unusual")

    def _value(self, data_type: DataType) -> str:
        if data_type.kind is Kind.TEXT:
            return "{part}.decode()"
        if data_type.kind is Kind.BYTEA:
            return "{part}"
        return self._name("decode", binary_decoder(data_type)) + "({part})"

    def _from_text(self, data_type: DataType) -> str:
        if data_type.kind in STRINGS:
            return "{part}.decode()"
        if data_type.kind in INTEGERS:
            return "int({part})"
        return self._name("decode", text_decoder(data_type)) + "({part})"

    def _name(self, stem: str, value: Any) -> str:
        name = f"{stem}_{len(self._names)}"
        self._names[name] = value
        return name


def _header(width: int) -> bytes:
    return bytes([BINARY]) + width.to_bytes(4, "big")


def _finish(index: int, kind: Kind) -> list[str]:
    """Return what is still to be done to a value once it is unpacked."""
    v = f"v{index}"
    if kind in FLOATS:
        return [f"if {v} != {v}: {v} = NAN"]
    if kind is Kind.DATE:
        low, high, shift, far = DATE_MIN, DATE_MAX, EPOCH_DAYS, "days"
    elif kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        low, high, shift, far = MICROS_MIN, MICROS_MAX, EPOCH_MICROS, "micros"
    else:
        return []
    return [f"{v} = {v} + {shift} if {low} <= {v} <= {high} else {far}({v})"]
