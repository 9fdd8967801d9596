"""Streaming aggregation: net changes of an input to net changes of its groups.

Touch: sign algebra, group states, output changes. Never: reading or committing an epoch.
Tests: tests/unit/aggregate, tests/spark.
"""
