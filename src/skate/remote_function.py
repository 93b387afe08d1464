"""Remote functions, created by `@ray.remote`."""

from __future__ import annotations

from skate.client.task.remote_function import RemoteFunction

__all__ = ["RemoteFunction"]
