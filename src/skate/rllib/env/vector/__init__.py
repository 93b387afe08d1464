"""Vectors of environments with several agents, to be stepped by hand."""
