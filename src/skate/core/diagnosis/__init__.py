"""Explanations of waits, and the search for deadlocks."""
