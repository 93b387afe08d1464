"""Checks of a run: what users would notice, grants in transit, and waits at the end."""
