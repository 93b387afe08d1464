"""Actors: names, states, calls in order, restarts."""
