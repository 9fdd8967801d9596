"""Expressions with rows to judge them over: Postgres evaluates the same text over the same rows."""

from decimal import Context, Decimal
from typing import Any

import psycopg
from sqlglot import exp

from ops.common.schema import Column, DataType, Schema
from ops.planner.dialect import statements
from ops.planner.expr import Expr, Ref
from ops.planner.expr_bind import Binder

SCHEMA = Schema(
    tuple(
        Column(name, DataType.parse(kind))
        for name, kind in {
            "id": "int4",
            "s": "int2",
            "i": "int4",
            "j": "int4",
            "l": "int8",
            "m": "numeric(12,2)",
            "n": "numeric(10,4)",
            "w": "numeric(38,18)",
            "t": "text",
            "u": "text",
            "b": "bool",
            "c": "bool",
            "d": "date",
            "e": "timestamp",
            "z": "timestamptz",
        }.items()
    ),
    ("id",),
)
ROWS = """
(1, 7, 7, 2,
    9000000000000000000, 1234567.89, 3.1415, 2.500000000000000001,
    'Hello, World', 'lo', true, false, '2024-02-29',
    '2024-02-29 13:45:10.5', '2024-02-29 13:45:10.123456+02'),
(2, -7, -7, 2,
    -9000000000000000000, -0.05, 0.0001, -0.000000000000000001, '', '', false, null, '1999-12-31',
    '1999-12-31 23:59:59', '1999-12-31 23:59:59+00'),
(3, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
(4, 32767, 2147483647, -3, 1, 9999999999.99, -999999.9999, 12345678901234567890.123456789012345678,
    '  pad \\ 100%_x ', '%', true, true, '2021-01-03',
    '2021-01-03 00:00:00', '2021-01-03 00:00:00+00'),
(5, -32768, -2147483648, 7, 3, 0.01, 300.0000, 99999,
    'über straße', 'x', false, false, '0001-01-02',
    '2000-06-15 12:00:00.000001', '2000-06-15 12:00:00.000001+00'),
(6, 1, 0, 1, 0, 0.00, 7.0000, 1, 'a,b,,c', ',', null, true, '9999-12-30',
    '1970-01-01 00:00:00', '1969-12-31 23:59:59.999999+00'),
(7, 0, 10, 3, 10, 2.50, 1.5000, 0.5, 'line one
line two', 'o', true, null, '2020-12-31',
    '2020-12-31 01:02:03.045', '2020-12-31 01:02:03.045+00'),
(8, 3, 3, 3, 5, -2.50, -1.5000, -3.5, E'\\U0001F600bc', 'b', false, true, '2016-01-04',
    '2016-01-04 08:09:10', '2016-01-04 08:09:10+00')
"""
EXPRESSIONS = """
1
12345678901
123456789012345678901
1.50
-3
'text'
NULL
TRUE
s
s / 2::smallint
s % 3::smallint
id + s
i / j
-7 / 2
i % j
mod(l, j)
l / 3
s * 2
m + 1
m - n
m * n
m * 3
m + l
-m
- -m
m % n
n % 0.7
m / n
n / nullif(m, 0)
i / nullif(m, 0)
m / 3
round(w, 3) / 7
7 / (round(abs(w), 4) + 1)
l / 3.0
1 / (abs(l) + 1.00)
m / id
n / 3000.0
(id * 0.00001) / 7
12345.678 / id
l::numeric / id
id / 9999.0
10000.0 / id
9999.99 / id
abs(i::bigint)
abs(m)
abs(w)
sign(m)
round(m)
round(m, 1)
round(n, -2)
round(w, 3)
round(i::numeric, 2)
round(m, 5)
floor(m)
ceil(m)
ceiling(n)
trunc(n)
trunc(m)
i = j
m = 0
n <> 1.5
i < l
s >= id
t = ''
t < u
t > 'a'
d = '2024-02-29'
d < e
e >= z
z = '2024-02-29 11:45:10.123456+00'
b = c
b AND c
b OR c
NOT b
NOT b OR c AND i > 0
b IS NULL
b IS NOT NULL
b IS TRUE
b IS NOT TRUE
b IS FALSE
b IS NOT FALSE
i > 0 IS TRUE
i = j IS NULL
b = c IS NOT TRUE
i IS DISTINCT FROM j
i IS NOT DISTINCT FROM 7
t IS DISTINCT FROM NULL
i IN (7, 10)
i NOT IN (7, 10)
i IN (7, NULL)
m IN (0, 2.5, 0.01)
t IN ('', 'x')
i BETWEEN 0 AND 10
i NOT BETWEEN 0 AND 10
m BETWEEN SYMMETRIC 10 AND -1
d BETWEEN '2016-01-01' AND DATE '2020-12-31'
t LIKE '%o%'
t LIKE 'Hell_, %'
t NOT LIKE '%o%'
t ILIKE 'HELLO%'
t LIKE '%\\%\\_x_'
t LIKE '%!%!_x%' ESCAPE '!'
t LIKE '%\\\\%'
t LIKE 'line%two'
t LIKE '_bc'
t LIKE ''
CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' ELSE 'none' END
CASE WHEN b THEN i END
CASE i WHEN 7 THEN 1.5 WHEN 10 THEN 2 ELSE 0 END
CASE WHEN j = 0 THEN 0 ELSE i / j END
CASE WHEN b THEN m ELSE n END
CASE WHEN b THEN NULL ELSE 'x' END
coalesce(i, j, 0)
coalesce(t, 'none')
coalesce(m, 0)
coalesce(NULL, u)
coalesce(d, '2000-01-01')
nullif(i, j)
nullif(m, 0)
nullif(t, '')
greatest(i, j)
greatest(i, l, s)
least(m, n)
least(d, DATE '2000-01-01')
greatest(t, u)
t || u
t || 1
'x' || b
m || t
t || NULL
d || ' is the day'
concat(t, i, b, NULL, m)
concat(d, e, z)
concat_ws('-', t, i, b, NULL, d)
lower(t)
upper('abc' || u)
length(t)
char_length(t)
octet_length(t)
reverse(u)
md5(t)
left(t, 3)
left(t, -3)
left(t, 0)
right(t, 3)
right(t, -3)
right(t, 0)
substring(t FROM 2 FOR 3)
substring(t FROM 3)
substring(t FROM 0 FOR 3)
substring(t FROM -2 FOR 5)
substring(t FROM -2)
substr(t, 2)
substr(t, 2, 2147483647)
substr(t, j + 4, 0)
trim(t)
trim(BOTH 'Hd ' FROM t)
trim(LEADING FROM t)
ltrim(t, ' pH')
rtrim(t)
btrim(t, 'ad')
replace(t, u, '<>')
replace(t, 'o', '')
strpos(t, u)
position(u IN t)
repeat(u, 3)
repeat(u, -1)
lpad(u, 5, 'ab')
lpad(t, 4)
rpad(u, 4, 'xyz')
rpad(u, -1, 'x')
split_part(t, ',', 2)
split_part(t, ',', -1)
split_part(t, 'zz', 1)
starts_with(t, u)
i::text
l::text
m::text
(m * n)::text
round(m, 1)::text
(m + 1)::text
coalesce(m, 0.50)::text
b::text
d::text
e::text
z::text
(j + 0.5)::int
(j - 0.5)::int
(m / 1000)::int
(n / 1000)::smallint
(m / 3)::numeric(20,3)
m::numeric(14,1)
m::bigint
i::numeric
m::numeric
(i::numeric)::text
'42'::int
' 42 '::bigint
'1e2'::numeric
'3.14159'::numeric(5,2)
'yes'::boolean
CAST('2024-02-29' AS date)
TIMESTAMP '2024-02-29 10:00:00'
'2024-02-29 10:00+02'::timestamptz
i::text::int
b::int
i::boolean
d::timestamp
d::timestamptz
e::date
z::date
e::timestamptz
z::timestamp
d + 1
d - 1
1 + d
d - DATE '2000-01-01'
date_trunc('month', e)
date_trunc('week', e)
date_trunc('quarter', z)
date_trunc('year', d)
date_trunc('hour', z)
date_trunc('milliseconds', e)
extract(year FROM d)
extract(month FROM e)
extract(day FROM z)
extract(hour FROM e)
extract(minute FROM z)
extract(second FROM e)
extract(epoch FROM z)
extract(epoch FROM e)
extract(dow FROM d)
extract(isodow FROM e)
extract(doy FROM d)
extract(week FROM d)
extract(isoyear FROM d)
extract(quarter FROM e)
extract(second FROM e)::text
extract(year FROM d)::int
(id + j) * 2 - s
i + j * 2
(m > 10 AND b) IS NOT TRUE
length(t) > 5 AND t LIKE '%o%' OR i = 10
"""


def expressions() -> list[str]:
    return [line for line in EXPRESSIONS.replace("\\\\", "\\").split("\n") if line]


def tree_of(text: str) -> exp.Expr:
    sql = f"CREATE MATERIALIZED VIEW v AS SELECT {text} FROM t"
    tree: exp.Expr = statements(sql)[0].tree().expression.expressions[0]
    return tree


def bound(text: str) -> Expr:
    def column(tree: exp.Column) -> Expr:
        return Ref(tree.name, SCHEMA.column(tree.name).type)

    def refuse(what: str, tree: exp.Expr, hint: str) -> Exception:
        return AssertionError(f"{text}: {what}; {hint}")

    return Binder(column, refuse).typed(tree_of(text))


def make_rows(connection: psycopg.Connection[Any]) -> None:
    columns = ", ".join(f"{c.name} {_postgres(c.type)}" for c in SCHEMA.columns)
    connection.execute("SET TIME ZONE 'UTC'")
    connection.execute("SET DateStyle = ISO")
    connection.execute(f"CREATE TABLE t ({columns})")
    connection.execute("INSERT INTO t VALUES " + ROWS)


def postgres_values(connection: psycopg.Connection[Any], text: str) -> list[Any]:
    """Return the expression's values by id; a numeric as text is compared with its digits."""
    rows = connection.execute(f"SELECT {text} FROM t ORDER BY id").fetchall()
    return [row[0] for row in rows]


def _postgres(data_type: DataType) -> str:
    return "numeric" if data_type == DataType.parse("numeric(38,18)") else str(data_type)


def kept(value: Any) -> Any:
    """A numeric is compared at what the lake keeps of it: 18 digits after the point."""
    if isinstance(value, Decimal):
        scaled = value.quantize(Decimal(1).scaleb(-18), context=_WIDE, rounding="ROUND_HALF_UP")
        return scaled.normalize(_WIDE) + 0
    return value


_WIDE = Context(prec=80)
