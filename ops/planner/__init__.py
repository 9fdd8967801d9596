"""From a pipeline's SQL to plain values that say what is wanted, or to a refusal with its place.

The way: text -> `dialect` (tokens, trees) -> `parse` (with `options`, `names`, `view`) -> `plan`
(the values) -> `bind` (types) and `diff` (what `tidegate plan` would do).

Touch: `dialect` for new syntax, `options` for a new WITH option, `view` for what a SELECT may hold,
`bind` for types.
Never: open a connection, read a file or the environment, or let the value of a password-like option
reach an error, a definition or a repr.
Tests: tests/unit/planner, file for file.
"""
