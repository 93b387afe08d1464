"""Experiments from the command line, and checks of what comes out of them."""
