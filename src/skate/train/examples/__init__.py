"""Training functions that documentation of Train imports by name. Run one with `python -m
skate.train.examples.pytorch.NAME`."""
