"""Functions by type of value: `expr.str`, `expr.list`, `expr.dt` and so on, and mathematics of numbers."""
