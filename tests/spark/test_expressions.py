"""Every expression, in one Spark job, gives what Postgres gives over the same rows."""

import psycopg
from pyspark.sql import SparkSession

from ops.common.schema import quote, spark_type
from ops.planner.expr import type_of
from ops.planner.expr_spark import to_spark
from tests.support.expressions import (
    SCHEMA,
    bound,
    expressions,
    kept,
    make_rows,
    postgres_values,
)


def test_values_are_those_of_postgres(database: str, spark: SparkSession) -> None:
    texts = expressions()
    with psycopg.connect(database, autocommit=True) as connection:
        make_rows(connection)
        expected = {text: postgres_values(connection, text) for text in texts}
        rows = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    ddl = ", ".join(f"{c.name} {spark_type(c.type)}" for c in SCHEMA.columns)
    table = spark.createDataFrame(rows, ddl)
    columns = [
        f"CAST({to_spark(bound(t), quote)} AS {spark_type(type_of(bound(t)))}) AS c{i}"
        for i, t in enumerate(texts)
    ]
    found = table.repartition(1).selectExpr("id", *columns).toArrow().sort_by("id")
    differing = {}
    for number, text in enumerate(texts):
        shown = [kept(v) for v in found.column(f"c{number}").to_pylist()]
        wanted = [kept(v) for v in expected[text]]
        if shown != wanted:
            differing[text] = [(a, b) for a, b in zip(shown, wanted, strict=True) if a != b]
    assert differing == {}
