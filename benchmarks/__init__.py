"""Benchmarks of Skate: scripts against public names only, run the same on Skate and on Ray."""
