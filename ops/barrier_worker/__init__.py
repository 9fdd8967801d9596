"""The other end of the barrier manager: leases, injection, collection, commit, recovery.

Touch: when a barrier is due, when it is complete, what is committed with it.
Never: how rows are read or computed. Tests: tests/unit/barrier, tests/system.
"""
