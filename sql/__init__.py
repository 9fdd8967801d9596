"""SQL as text: one statement a file, named verb_object, bound by parameters.

Touch: files ending in .sql. Never: logic. Tests: whoever runs the statement.
"""
