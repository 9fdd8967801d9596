"""A column of every type of Postgres, with values: edges written by hand and as many at random."""

import json
import random
import struct
from collections.abc import Mapping
from typing import Any

import psycopg

from tests.support.source_place import Place

Values = dict[str, list[str]]
"""By type, SQL expressions."""

RANDOM_VALUES = 20
START = "timestamp '2000-01-01' + "
MICROS = (-211_813_488_000_000_000, 9_223_372_036_854_775_806 - 946_684_800_000_000)

# Written as SQL expressions. These are read in binary where no column of OTHER is with them.
PLAIN: Mapping[str, list[str]] = {
    "int2": ["0", "-32768", "32767"],
    "int4": ["0", "-2147483648", "2147483647"],
    "int8": ["0", "-9223372036854775808", "9223372036854775807"],
    "float4": [
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "'-0'",
        "0",
        "0.1",
        "1e-45",
        "'3.4028235e38'",
        "16777216",
        "1e15",
        "1.17549435e-38",
    ],
    "float8": [
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "'-0'",
        "0",
        "0.1",
        "5e-324",
        "'1.7976931348623157e308'",
        "1e15",
        "1e16",
        "123456789012345680",
        "1e-5",
        "0.3",
    ],
    "numeric(12,2)": ["0", "-0.01", "9999999999.99", "-9999999999.99", "100", "10000"],
    "numeric(38,18)": ["1e-18", "-99999999999999999999.999999999999999999", "1"],
    "numeric(38,0)": ["99999999999999999999999999999999999999", "-1", "1e37"],
    "numeric": ["0", "0.1000", "-12345678901234567890.123456789012345678", "1e19", "1e-18"],
    "text": [
        "''",
        "'a'",
        "E'tab\\t\"quote\\'\\\\ \\n\\r'",
        "'héllo ☃ \U0001f600'",
        "E'\\u0001'",
        "repeat('x', 100000)",
        "E'\\\\N'",
        "'NULL'",
    ],
    "varchar(20)": ["''", "' x '"],
    "char(5)": ["''", "'c'", "' x '", "'é'"],
    "name": ["'a_name'", "'é'"],
    "bool": ["true", "false"],
    "bytea": ["''", "'\\x00'", "'\\xdeadbeef00ff'", "'a\\\\b'"],
    "date": [
        "'infinity'",
        "'-infinity'",
        "'0001-01-01'",
        "'0044-03-15 BC'",
        "'4714-11-24 BC'",
        "'5874897-12-31'",
        "'1970-01-01'",
        "'9999-12-31'",
        "'10000-01-01'",
        "'1582-10-10'",
    ],
    "timestamp": [
        "'infinity'",
        "'-infinity'",
        "'0001-01-01'",
        "'4714-11-24 BC'",
        "'1969-12-31 23:59:59.999999'",
        "'294246-12-31 23:59:59.999999'",
        "'10000-01-01 00:00:00.1'",
        "'2024-02-29 12:34:56.78'",
    ],
    "timestamptz": [
        "'infinity'",
        "'-infinity'",
        "'0001-01-01 00:00+00'",
        "'4714-11-24 00:00+00 BC'",
        "'294246-12-31 23:59:59.999999+00'",
        "'2024-03-31 02:30:00+05:45'",
        "'1890-01-01 00:00 Europe/Amsterdam'",
    ],
    "timestamptz(3)": ["'2024-03-31 02:30:00.1239+00'"],
    "uuid": ["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "json": ['\'{"b" : 1,  "a":[1.0, null]}\'', "'null'", "'\"\\u00e9\"'", "' 1 '"],
    "jsonb": ['\'{"b" : 1,  "a":[1.00, null, 1e400]}\'', "'null'", "'\"\\u00e9☃\"'", "'[]'"],
    "time": ["'00:00'", "'24:00'", "'23:59:59.999999'", "'01:02:03.5'", "'12:00:00.000001'"],
    "mood": ["'sad'", "'very happy ☃'"],
    "whole": ["1", "-7"],
    "whole_again": ["12"],
    "price": ["1.5", "-99999.999"],
    "word": ["'a'", "''"],
}

# Kept as the text Postgres prints, and known in no other form.
OTHER: Mapping[str, list[str]] = {
    "timetz": ["'00:00+00'", "'24:00-15:59'", "'12:34:56.789+05:45:30'"],
    "interval": [
        "'1 year 2 mons -3 days 04:05:06.789'",
        "'0'",
        "'-1 day +00:00:01'",
        "'178000000 years'",
        "'1 mon -1 day'",
        "'-00:00:00.000001'",
        "'24:00'",
        "'1 day'",
    ],
    "int4[]": [
        "'{}'",
        "'{1,NULL,-3}'",
        "'{{1,2},{3,4}}'",
        "'[2:4]={1,2,3}'",
        "'[0:1][-1:0]={{1,2},{3,4}}'",
    ],
    "text[]": ["'{}'", "ARRAY['a b', '', 'NULL', NULL, E'q\"u\\\\o,te', '{}', 'é']"],
    "numeric(5,2)[]": ["'{1.5,NULL,NaN}'"],
    "float8[]": ["'{0.1,-0,NaN,Infinity,1e15,1e-5}'"],
    "float4[]": ["'{0.1,16777216,1e-45}'"],
    "bool[]": ["'{t,f}'"],
    "bytea[]": ["ARRAY['\\x00ff'::bytea, '']"],
    "timestamptz[]": [
        "ARRAY['2024-03-31 02:30:00.5+05:45'::timestamptz, 'infinity', '0044-03-15 00:00+00 BC']"
    ],
    "interval[]": ["ARRAY['1 day 02:00'::interval]"],
    "uuid[]": ["ARRAY['00000000-0000-0000-0000-000000000000'::uuid]"],
    "jsonb[]": ['ARRAY[\'{"a": "b c"}\'::jsonb]'],
    "mood[]": ["ARRAY['sad', 'very happy ☃']::mood[]"],
    "word[]": ["ARRAY['sad', 'a,b']::word[]"],
    "inet": [
        "'1.2.3.4'",
        "'1.2.3.4/24'",
        "'1.2.3.4/32'",
        "'::'",
        "'::1'",
        "'::ffff:1.2.3.4'",
        "'2001:db8::1/64'",
        "'1:0:0:2:0:0:0:3'",
    ],
    "cidr": ["'10.0.0.0/8'", "'1.2.3.4/32'", "'2001:db8::/32'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "int4range": ["'empty'", "'[1,5)'", "'(,5]'", "'(,)'", "'[1,)'"],
    "int8range": ["'[1,5)'"],
    "numrange": ["'[1.50,2)'", "'(,1e5]'"],
    "daterange": ["'[2024-01-01,infinity)'", "'[2024-01-01,infinity]'"],
    "tsrange": ["'[2024-01-01 00:00,2024-01-01 00:00:00.5]'"],
    "tstzrange": ["'[2024-01-01 00:00+02,)'"],
    "words": ["'[a,\"b c\"]'", "words('\"', E'\\\\')"],
    "int4multirange": ["'{}'", "'{[1,2),[5,)}'"],
    "tstzmultirange": ["'{[2024-01-01 00:00+02,2025-01-01 00:00+00]}'"],
    "money": ["0", "1234.5", "-0.01", "'-92233720368547758.08'", "92233720368547758.07"],
    "bit(5)": ["B'10101'"],
    "varbit": ["B''", "B'1'", "B'110010101111'"],
    "pair": ["ROW(1, 'a b')", "ROW(NULL, NULL)", "ROW(-1, '')", "ROW(1, E'q\"(\\\\,)')"],
    "pair[]": ["ARRAY[ROW(1, 'a b')::pair, NULL]"],
    "nested": ["ROW('{1,2}', ROW(1, 'x'), '[1,2)')", "NULL"],
    "oid": ["0", "4294967295"],
    "xid8": ["'18446744073709551615'"],
    "pg_lsn": ["'16/B374D848'"],
    "tid": ["'(4294967295,65535)'"],
    '"char"': ["'a'", "''", "E'\\\\377'"],
    "regclass": ["'pg_class'"],
    "tsvector": ["'fat:2A cat:3,4 ''a b'':1'"],
    "tsquery": ["'fat & (cat | !dog:*A)'"],
    "point": ["'(0.1,-0)'", "'(NaN,Infinity)'"],
    "line": ["'{1,-1,0.1}'"],
    "lseg": ["'[(0,0),(1,1e15)]'"],
    "box": ["'(1,1),(0,0)'"],
    "box[]": ["ARRAY['(1,1),(0,0)'::box, '(2,2),(3,3)']"],
    "path": ["'[(0,0),(1,1)]'", "'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(2,0))'"],
    "circle": ["'<(0.1,0),2>'"],
    "jsonpath": ["'$.a[*] ? (@ > 1)'"],
    "int2vector": ["'1 2 3'"],
    "oidvector": ["''", "'1 2'"],
    "txid_snapshot": ["'10:20:10,14,15'"],
    "several": ["'{1,2}'"],
    "numeric(40,2)": ["99999999999999999999999999999999999999.99", "'NaN'", "-0.01"],
}

SINCE: Mapping[int, Mapping[str, list[str]]] = {
    150000: {"numeric(5,-2)": ["1234567", "-100"], "numeric(3,5)": ["0.00123", "-0.00001"]},
    170000: {"interval": ["'infinity'", "'-infinity'"]},
}
"""Types and values that older servers lack."""

EXTENSIONS: Mapping[str, tuple[str, list[str]]] = {
    "citext": ("citext", ["'Abc'", "'é'"]),
    "hstore": ("hstore", ["'a=>1, \"b c\"=>NULL'", "''"]),
    "ltree": ("ltree", ["'Top.Science'", "''"]),
    "vector": ("vector(3)", ["'[1,2.5,-0.1]'"]),
}
PLAIN_EXTENSIONS = frozenset({"citext"})

MADE_FROM = """
CREATE TYPE mood AS ENUM ('sad', 'very happy ☃');
CREATE DOMAIN whole AS int4 CHECK (VALUE > -100);
CREATE DOMAIN whole_again AS whole NOT NULL DEFAULT 12;
CREATE DOMAIN price AS numeric(8,3);
CREATE DOMAIN word AS varchar(9);
CREATE DOMAIN several AS int4[];
CREATE TYPE words AS RANGE (subtype = text);
CREATE TYPE pair AS (a int4, b text);
CREATE TYPE nested AS (a int4[], b pair, c int4range);
"""


def types_of(place: Place) -> tuple[Values, Values]:
    """Make the types in a database; return those read in binary and the others, with values."""
    values = random_values(random.Random(7))
    plain = {t: [*v, *values.get(t, ())] for t, v in PLAIN.items()}
    other = {t: [*v, *values.get(t, ())] for t, v in OTHER.items()}
    for since, types in SINCE.items():
        for name, more in types.items() if place.connection.info.server_version >= since else ():
            into = other if name in other else plain
            into[name] = [*into.get(name, ()), *more]
    place.run(MADE_FROM)
    for name, (column, more) in EXTENSIONS.items():
        if is_available(place, name):
            place.run(f"CREATE EXTENSION {name}")
            (plain if name in PLAIN_EXTENSIONS else other)[column] = more
    if _has_xml(place):
        plain["xml"] = ["'<a>é</a>'", '\'<?xml version="1.0" encoding="UTF-8"?><a b="1"/>\'', "'x'"]
    return plain, other


def is_available(place: Place, extension: str) -> bool:
    found = place.connection.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = %s", [extension]
    )
    return found.fetchone() is not None


def _has_xml(place: Place) -> bool:
    try:
        place.run("SELECT xml '<a/>'")
    except psycopg.errors.FeatureNotSupported:
        return False
    return True


def random_values(rng: random.Random) -> dict[str, list[str]]:
    def text() -> str:
        spans = ((1, 0x7F), (0x80, 0xD7FF), (0xE000, 0x10FFFF))
        return "".join(chr(rng.randint(*rng.choice(spans))) for _ in range(9))

    def quoted(value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def bits(code: str, size: int) -> str:
        (value,) = struct.unpack(code, rng.randbytes(size))
        return quoted(repr(value))

    def document(depth: int = 0) -> Any:
        if depth > 2 or rng.random() < 0.4:
            return rng.choice([None, True, rng.random() * 10 ** rng.randint(-9, 9), text()])
        if rng.random() < 0.5:
            return [document(depth + 1) for _ in range(3)]
        return {text(): document(depth + 1) for _ in range(3)}

    def moment() -> str:
        return f"{START}'{rng.randint(*MICROS)} microseconds'::interval"

    def interval() -> str:
        return (
            f"make_interval(months => {rng.randint(-999, 999)}, days => {rng.randint(-99, 99)}) + "
            f"'{rng.randint(-(10**12), 10**12)} microseconds'::interval"
        )

    def address() -> str:
        if rng.random() < 0.5:
            return quoted(
                f"{'.'.join(str(rng.randint(0, 255)) for _ in range(4))}/{rng.randint(0, 32)}"
            )
        words = (f"{rng.choice([0, 0, 0, rng.randint(0, 65535)]):x}" for _ in range(8))
        return quoted(f"{':'.join(words)}/{rng.randint(0, 128)}")

    makers = {
        "int2": lambda: str(rng.randint(-(2**15), 2**15 - 1)),
        "int4": lambda: str(rng.randint(-(2**31), 2**31 - 1)),
        "int8": lambda: str(rng.randint(-(2**63), 2**63 - 1)),
        "float4": lambda: bits(">f", 4),
        "float8": lambda: bits(">d", 8),
        "numeric(12,2)": lambda: f"{rng.randint(-(10**12) + 1, 10**12 - 1)}e-2",
        "numeric(38,18)": lambda: f"{rng.randint(-(10**38) + 1, 10**38 - 1)}e-18",
        "numeric": lambda: f"{rng.randint(-(10**20), 10**20)}e-{rng.randint(0, 18)}",
        "numeric(40,2)": lambda: f"{rng.randint(-(10**39), 10**39)}e-2",
        "text": lambda: quoted(text()),
        "bytea": lambda: quoted("\\x" + rng.randbytes(rng.randint(0, 20)).hex()),
        "date": lambda: f"date '2000-01-01' + {rng.randint(-2_451_500, 2_145_000_000)}",
        "timestamp": moment,
        "timestamptz": lambda: f"({moment()}) AT TIME ZONE 'UTC'",
        "uuid": lambda: quoted(rng.randbytes(16).hex()),
        "json": lambda: quoted(json.dumps(document(), ensure_ascii=rng.random() < 0.5)),
        "jsonb": lambda: quoted(json.dumps(document(), ensure_ascii=rng.random() < 0.5)),
        "time": lambda: f"time '00:00' + '{rng.randrange(86_400_000_000)} microseconds'::interval",
        "interval": interval,
        "text[]": lambda: f"ARRAY[{quoted(text())}, {quoted(text())}]",
        "inet": address,
        "varbit": lambda: f"B'{rng.getrandbits(20):b}'",
        "money": lambda: f"'{rng.randint(-(2**63), 2**63 - 1) / 100:.2f}'",
        "pair": lambda: f"ROW({rng.randint(0, 9)}, {quoted(text())})",
    }
    return {name: [make() for _ in range(RANDOM_VALUES)] for name, make in makers.items()}
