"""Errors of the state API: the names of `exception`, in the plural."""

from __future__ import annotations

from skate.util.state.exception import DataSourceUnavailable, RayStateApiException, ServerUnavailable

__all__ = ["DataSourceUnavailable", "RayStateApiException", "ServerUnavailable"]
