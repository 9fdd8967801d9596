"""What it means: pure laws, and the Spark executors that carry them out.

Touch: barriers, backfills, tables, aggregates, plans.
Never: Dagster, a database driver, the environment; what is needed from outside is a Protocol.
Tests: tests/unit and tests/properties without Spark, tests/spark with it.
"""
