"""When: Dagster assets, sensors and jobs, and the command line; each calls one executor.

Touch: wiring of resources into ops, keys, partitions, what a user sees.
Never: SQL, DataFrames, a decision about data. Tests: tests/orchestration.
"""
