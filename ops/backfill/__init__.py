"""Filling what is new from what is there: tables from their source, views from their upstream.

Touch: phases, positions, pages, failpoints. Never: the commit itself. Tests: tests/system.
"""
