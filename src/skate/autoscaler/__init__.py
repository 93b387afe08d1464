"""Cluster scaling. One machine cannot grow; see `sdk.request_resources`."""

from __future__ import annotations

from skate.autoscaler import sdk

__all__ = ["sdk"]
