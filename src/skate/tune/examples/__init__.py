"""Trainables and programs that texts about Tune import by name. Run one with `python -m skate.tune.examples.NAME`."""
