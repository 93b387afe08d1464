"""What questions to the state API end in."""

from __future__ import annotations


class DataSourceUnavailable(Exception):
    """What should tell a part of the state cannot be reached."""


class RayStateApiException(Exception):
    """A question to the state API cannot be answered, or not in full."""


class ServerUnavailable(RayStateApiException):
    """No session runs that could be asked."""
