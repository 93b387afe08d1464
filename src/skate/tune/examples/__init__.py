"""Trainables and programs that documentation of Tune imports by name. Run one with `python -m
skate.tune.examples.NAME`."""
