"""The gRPC request context for methods that answer gRPC requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

T = TypeVar("T")


class RayServegRPCContext:
    """The context of a gRPC request, for methods that take `grpc_context`. It can be sent to other processes."""

    def __init__(self, grpc_context: Any) -> None:
        self._auth_context = dict(grpc_context.auth_context() or {})
        self._metadata = [(key, value) for key, value in grpc_context.invocation_metadata() or ()]
        self._peer = grpc_context.peer()
        self._identities = grpc_context.peer_identities()
        self._identity_key = grpc_context.peer_identity_key()
        self._code: Any = grpc_context.code() or None
        self._details: Any = grpc_context.details() or None
        self._trailing: list[Any] = [(key, value) for key, value in grpc_context.trailing_metadata() or ()]
        self._compression: Any = None

    def auth_context(self) -> dict[str, Any]:
        """The properties of the client's certificate."""
        return self._auth_context

    def invocation_metadata(self) -> list[Any]:
        """The metadata sent by the client, as (key, value)."""
        return self._metadata

    def _metadata_value(self, name: str) -> str | None:
        return next((value for key, value in self._metadata if key == name), None)

    def request_id(self) -> str | None:
        """The id of the request, if the client set one."""
        return self._metadata_value("request_id")

    def application(self) -> str | None:
        """The application that the client named, if any."""
        return self._metadata_value("application")

    def multiplexed_model_id(self) -> str | None:
        """The model that the client named, if any."""
        return self._metadata_value("multiplexed_model_id")

    def traceparent(self) -> str | None:
        """The client's span, if it sent one."""
        return self._metadata_value("traceparent")

    def tracestate(self) -> str | None:
        """The trace state of the client's span."""
        return self._metadata_value("tracestate")

    def peer(self) -> str:
        """The client's address."""
        return str(self._peer)

    def peer_identities(self) -> Any:
        """The names in the client's certificate; None without one."""
        return self._identities

    def peer_identity_key(self) -> Any:
        """The property of the certificate that has these names."""
        return self._identity_key

    def code(self) -> Any:
        """The status of the response."""
        return self._code

    def set_code(self, code: Any) -> None:
        """Set the status of the response."""
        self._code = code

    def details(self) -> str | None:
        """The status message."""
        return self._details  # type: ignore[no-any-return]

    def set_details(self, details: str) -> None:
        """Set the status message."""
        self._details = details

    def set_compression(self, compression: Any) -> None:
        """Compress the response."""
        self._compression = compression

    def trailing_metadata(self) -> list[Any]:
        """The metadata to send after the response."""
        return self._trailing

    def set_trailing_metadata(self, trailing_metadata: list[Any]) -> None:
        """Set the metadata to send after the response, in addition to the request's id."""
        own = [each for each in self._trailing if each[0] == "request_id"]
        self._trailing = own + list(trailing_metadata)

    def _set_on_grpc_context(self, grpc_context: Any) -> None:
        """Apply the settings to gRPC's own context."""
        if self._code is not None:
            grpc_context.set_code(self._code)
        if self._details is not None:
            grpc_context.set_details(self._details)
        if self._compression is not None:
            grpc_context.set_compression(self._compression)
        if self._trailing:
            grpc_context.set_trailing_metadata(tuple(self._trailing))


class gRPCInputStream(AsyncIterator[T]):  # noqa: N801 (the public name)
    """The messages of a streaming request; iterate with `async for`."""

    def __init__(
        self, request_iterator: AsyncIterator[T], *, cancel_event: asyncio.Event | None = None
    ) -> None:
        self._messages = request_iterator
        self._cancelled = cancel_event or asyncio.Event()
        self._exhausted = False

    def __aiter__(self) -> gRPCInputStream[T]:
        return self

    async def __anext__(self) -> T:
        if self._exhausted or self._cancelled.is_set():
            self._exhausted = True
            raise StopAsyncIteration
        try:
            return await self._messages.__anext__()
        except StopAsyncIteration:
            self._exhausted = True
            raise

    def is_cancelled(self) -> bool:
        """Return True if the request was cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel the request, so that no more messages arrive."""
        self._cancelled.set()

    @property
    def is_exhausted(self) -> bool:
        """Return True if all messages were read."""
        return self._exhausted
