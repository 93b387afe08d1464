"""The response of a replica, as custom routers receive it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import skate


class ReplicaResult:
    """A response that a router may watch, read or cancel; it is a stream if the request asked for one."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self._is_stream = isinstance(response, skate.ObjectRefGenerator)

    def get(self, timeout_s: float | None) -> Any:
        """Return the response, or the next value of a stream. Raises what the deployment raised."""
        return skate.get(next(self._response) if self._is_stream else self._response, timeout=timeout_s)

    async def get_async(self) -> Any:
        """Return what `get` returns."""
        return await (await anext(self._response) if self._is_stream else self._response)

    def __next__(self) -> Any:
        """Return the next value of a stream."""
        return self.get(None)

    async def __anext__(self) -> Any:
        """Return the next value of a stream."""
        return await self.get_async()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call a function with the result or the exception once the request has ended."""
        whole = self._response.completed() if self._is_stream else self._response
        whole._on_completed(callback)

    def cancel(self) -> None:
        """Cancel the request."""
        skate.cancel(self._response)

    def to_object_ref(self) -> Any:
        """Return the ref of the response."""
        return self._response

    async def to_object_ref_async(self) -> Any:
        """Return the ref of the response."""
        return self._response

    def to_object_ref_gen(self) -> Any:
        """Return the generator of a stream's refs."""
        return self._response
