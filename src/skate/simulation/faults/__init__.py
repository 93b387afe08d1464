"""Faults: how often each happens in a run, and how it is injected."""
