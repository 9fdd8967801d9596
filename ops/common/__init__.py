"""Words every room shares: epochs, barriers, changes, schemas, vnodes, errors, ports.

Touch: values and pure functions. Never: I/O, except through `ports`. Tests: tests/unit/common.
"""
