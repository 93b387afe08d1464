"""Training functions that texts about Train import by name. Run one with `python -m skate.train.examples.pytorch.NAME`."""
