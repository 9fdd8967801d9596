"""What runs without being asked: barriers are granted, stream runs started, dead runs marked.

Touch: when something is due, and what a tick says.
Never: a cursor that correctness depends on; work on data. Tests: tests/orchestration.
"""
