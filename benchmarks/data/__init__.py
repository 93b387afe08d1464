"""Datasets: beside Ray Data and beside what the tables do by themselves (pyarrow, on the same cores)."""
