"""Keeps what is served as it is wanted: a pure machine that decides, and an actor that does."""
