"""What Dagster can be asked about an asset: is it what it should be?

Touch: a new question about a table or view, as a check on its asset.
Never: the answer itself; that is an executor's in ops.
Tests: tests/orchestration/test_runs.py.
"""
