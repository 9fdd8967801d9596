"""What an actor may say to its graph: subscribe, collect, report, fail.

Touch: the manager, its events, the progress reporters.
Never: what the coordinator makes of it (ops/barrier_worker). Tests: tests/unit/barrier.
"""
