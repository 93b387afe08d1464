"""Relational parts of plans that Polars runs, in the driver's threads: scans, filters, groups, sorts, joins.

A part goes there only if its result is certain to be the same as that of the ordinary way; see `docs/data.md`.

stages       finds the parts of a plan that Polars runs
frames       plans as frames of Polars
aggregates   aggregations as expressions of Polars
conditions   expressions as expressions of Polars
csv_scans    scans of CSV files by Skate's own reader
late_frame   frames of plans that read something first
dictionaries distinct texts of Parquet files from their dictionaries
distinct_frame  frames of aggregations that need only distinct texts
unread       columns that nothing uses
used_columns the columns that a plan uses of each step
join_filters filters of large inputs of joins by the keys of small ones
held_bytes   the memory that a stage holds
held_rows    a bound on the rows of joins
passes       sorts and groups of more rows than fit, a range of keys at a time
refusals     reasons not to use Polars
kinds        the types that both ways treat alike
polars_run   loads Polars, and runs a frame
stage_operator  a stage among the operators of a running plan
"""
