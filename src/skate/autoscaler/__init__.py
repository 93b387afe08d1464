"""Scaling the cluster; on one machine there is nothing to scale, see `sdk.request_resources`."""

from __future__ import annotations

from skate.autoscaler import sdk

__all__ = ["sdk"]
