"""Errors that programs raise and catch about spaces and environments."""

from __future__ import annotations


class UnsupportedSpaceException(Exception):
    """No default action distribution exists for a space."""


class EnvError(Exception):
    """An environment is broken, or is not one."""


class MultiAgentEnvError(Exception):
    """An environment of several agents returned something that does not fit its episode."""


class NotSerializable(Exception):
    """An object cannot be sent to another process."""
