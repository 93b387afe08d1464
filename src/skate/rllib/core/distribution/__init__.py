"""Distributions of actions, made from the outputs of a module."""
