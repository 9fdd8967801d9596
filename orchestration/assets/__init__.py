"""The assets of a pipeline: cdc_backfill -> table -> snapshot_backfill -> view.

Touch: what an asset is called, depends on and reports. A body opens resources and calls one thing.
Never: `from __future__ import annotations` (it breaks Dagster), SQL, DataFrames.
Tests: tests/orchestration.
"""
