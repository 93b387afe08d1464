"""Commands that print what the state API knows: rows, one row, counts."""
