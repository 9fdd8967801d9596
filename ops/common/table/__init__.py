"""State tables: a log of net changes over a base, readable as of an epoch.

Touch: which files make a table, netting, reading, merging, folding, collecting.
Never: a commit of an epoch (ops/barrier_worker), a driver, Dagster.
Tests: tests/unit/table, tests/properties, tests/spark.
"""
