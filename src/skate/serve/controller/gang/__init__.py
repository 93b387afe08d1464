"""Gangs: replicas that start, fail and are replaced together, on one placement group."""
