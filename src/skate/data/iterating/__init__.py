"""Iterating over a dataset: batches made ready in the background, shuffled within a window, shared by several consumers.

iterator    what iterates over a dataset, as often as wanted; it can be passed to tasks and actors
prefetching a background thread that runs ahead of its consumer
shuffling   batches drawn at random from a buffer of rows
splitting   one run of a dataset shared by several consumers
dealing     which rows go to which of two parts
"""
