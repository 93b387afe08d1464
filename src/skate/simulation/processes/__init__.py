"""Scripted drivers and workers: the cores of client and worker, which run programs instead of user code."""
