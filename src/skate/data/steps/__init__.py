"""Steps over blocks: each takes an iterator of blocks and returns one.

A chain of steps runs as one task. Steps are pickled, so they contain only what they need and no part of the engine.

udf         the user's function: loaded, called, its errors explained
rows        a function of a row
batches     a function of a batch
columns     expressions: projections and filters
sizing      blocks of a sensible size
writing     blocks to a datasink
"""
