"""A type as people write it in CREATE TABLE -> ours.

    integer, INT4, int        int4
    numeric(12,2)[]           other(numeric[])
    time(3) with time zone    other(timetz)
    mood, public.mood         other(mood), other(public.mood)

A name we do not know is one that the source must: `is_declared` tells whether it is what was found
there, also if it was written without its schema.

Pure.
"""

import re

from ops.common.schema import NUMERIC, STRINGS, DataType, Kind

_KINDS = {
    Kind.INT2: ("int2", "smallint"),
    Kind.INT4: ("int4", "integer", "int"),
    Kind.INT8: ("int8", "bigint"),
    Kind.FLOAT4: ("float4", "real"),
    Kind.FLOAT8: ("float8", "double precision", "float"),
    Kind.NUMERIC: ("numeric", "decimal", "dec"),
    Kind.BOOL: ("bool", "boolean"),
    Kind.BYTEA: ("bytea",),
    Kind.DATE: ("date",),
    Kind.TIMESTAMP: ("timestamp", "timestamp without time zone"),
    Kind.TIMESTAMPTZ: ("timestamptz", "timestamp with time zone"),
}
_KIND_OF = {word: kind for kind, words in _KINDS.items() for word in words}
_TEXTS = {
    "text": "text",
    "varchar": "varchar",
    "character varying": "varchar",
    "char": "bpchar",
    "character": "bpchar",
    "bpchar": "bpchar",
}
_NAMES = {
    "time without time zone": "time",
    "time with time zone": "timetz",
    "bit varying": "varbit",
}
_ARRAY = re.compile(r"(\s*\[\s*\d*\s*\])+$")
_SIZES = re.compile(r"\(\s*(-?\d+)\s*(?:,\s*(-?\d+)\s*)?\)")
MAX_DIGITS = 38


def parse_type(written: str, *, text_numerics: bool = False) -> DataType | None:
    """Return the type; None for a numeric that has no place in 38 digits."""
    inner = _ARRAY.sub("", written)
    sizes = _SIZES.search(inner)
    words = _SIZES.sub(" ", inner)
    base = words.strip() if '"' in words else " ".join(words.lower().split())
    base = "interval" if base.startswith("interval ") else _NAMES.get(base, base)
    kind = _KIND_OF.get(base)
    if inner != written:
        plain = _TEXTS.get(base) or (base if kind is None else kind.value)
        return DataType(Kind.OTHER, name=f"{plain}[]")
    if base in _TEXTS:
        return DataType(Kind.TEXT)
    if kind is None or (kind is Kind.NUMERIC and text_numerics):
        return DataType(Kind.OTHER, name=base if kind is None else kind.value)
    if kind is not Kind.NUMERIC:
        return DataType(kind)
    if sizes is None:
        return NUMERIC
    precision, scale = int(sizes[1]), int(sizes[2] or 0)
    # Zeros before the point, or right after it, that Postgres does not count as digits.
    digits = max(precision, scale, precision - scale)
    if not precision >= 1 or digits > MAX_DIGITS:
        return None
    return DataType(Kind.NUMERIC, digits, max(scale, 0))


def is_declared(wanted: DataType, found: DataType) -> bool:
    """Whether a column declared `wanted` is the source's column of type `found`."""
    if wanted == found:
        return True
    if wanted.kind is not Kind.OTHER or found.kind not in STRINGS or not found.name:
        return False
    return wanted.name in (found.name, found.name.rpartition(".")[2])
