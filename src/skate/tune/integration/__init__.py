"""Callbacks of other libraries that report to the trial they run in."""
