"""Functions that create a dataset, by the source of the rows."""
