"""What running code may ask about itself, by the names that programs know from `ray.runtime_context`."""

from __future__ import annotations

from skate.client.context import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
