"""Functions that begin a dataset, by where the rows come from."""
