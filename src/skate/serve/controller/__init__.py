"""Keeps applications in their desired state: a pure machine that decides, and an actor that executes."""
