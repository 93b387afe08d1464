"""What can be done with values of one kind: `expr.str`, `expr.list`, `expr.dt` and so on, and the mathematics of numbers."""
