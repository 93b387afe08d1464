"""Errors of the state API."""

from __future__ import annotations


class DataSourceUnavailable(Exception):
    """A source of the state is unreachable."""


class RayStateApiException(Exception):
    """A query of the state API has no answer, or only an incomplete one."""


class ServerUnavailable(RayStateApiException):
    """No session is running."""
