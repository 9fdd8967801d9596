"""A new view reads its upstream as of one epoch, vnode by vnode, then follows the log.

Touch: phases and progress per vnode. Never: how a group is computed (ops/aggregate).
Tests: tests/spark, tests/system.
"""
