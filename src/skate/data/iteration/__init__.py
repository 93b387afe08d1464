"""Iteration over a dataset: batches prepared in the background, shuffled within a window, shared by several consumers.

iterator    the reusable iterator over a dataset; it can be passed to tasks and actors
prefetching a background thread that runs ahead of its consumer
shuffling   batches drawn at random from a buffer of rows
splitting   one run of a dataset shared by several consumers
dealing     the assignment of rows to consumers
"""
