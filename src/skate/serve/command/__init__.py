"""The command `serve`: `skate serve ...` is the same."""
