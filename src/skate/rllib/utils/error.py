"""Errors of environments: what they return does not fit."""

from __future__ import annotations


class UnsupportedSpaceException(Exception):
    """No network or distribution goes with a space."""


class EnvError(Exception):
    """An environment returned something that does not fit."""


class MultiAgentEnvError(Exception):
    """An environment of several agents returned something that does not fit its episode."""
