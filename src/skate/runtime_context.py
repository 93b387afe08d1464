"""The runtime context of running code, under the names of `ray.runtime_context`."""

from __future__ import annotations

from skate.client.runtime_context import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
