"""CDC backfill: a table is filled from pages while its change stream is already being kept.

Touch: decoding a source's events, positions in its stream, splits of its key, what a page may add.
Never: connections, files, Dagster; those live in resources and orchestration.
Tests: tests/unit/cdc, tests/properties/test_splits.py.
"""
