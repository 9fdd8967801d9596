"""Is a live table its source's table, key by key; and if not, the changes that make it so.

Touch: what may be compared with what and when, checksums of key ranges, how a repair is taken in.
Never: a connection, a driver, Dagster; a write to a table except through its main graph.
Tests: tests/properties/test_settled_point.py, tests/spark/test_checksums.py,
tests/system/test_verify.py.
"""
