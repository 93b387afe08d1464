"""Errors of the state API."""

from __future__ import annotations


class DataSourceUnavailable(Exception):
    """A source of the state cannot be reached."""


class RayStateApiException(Exception):
    """A question to the state API cannot be answered, or not in full."""


class ServerUnavailable(RayStateApiException):
    """No session runs that could be asked."""
