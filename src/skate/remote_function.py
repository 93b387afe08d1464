"""What `@ray.remote` makes of a function."""

from __future__ import annotations

from skate.client.remote_function import RemoteFunction

__all__ = ["RemoteFunction"]
