"""What a method may know and say of the gRPC request that it answers."""

from __future__ import annotations

from typing import Any


class RayServegRPCContext:
    """The context of a gRPC request, for methods that take `grpc_context`."""

    def __init__(self, metadata: list[Any], peer: str = "") -> None:
        self._metadata = metadata
        self._peer = peer
        self._code: Any = None
        self._details: str | None = None
        self._trailing: list[Any] = []

    @classmethod
    def of(cls, call_context: Any) -> RayServegRPCContext:
        """From gRPC's own context."""
        return cls(list(call_context.invocation_metadata() or ()), call_context.peer())

    def invocation_metadata(self) -> list[Any]:
        """What the client has sent beside the request, as (key, value)."""
        return self._metadata

    def peer(self) -> str:
        """The client's address."""
        return self._peer

    def code(self) -> Any:
        """The status that was set."""
        return self._code

    def set_code(self, code: Any) -> None:
        """Set the status of the answer."""
        self._code = code

    def details(self) -> str | None:
        """The text that was set."""
        return self._details

    def set_details(self, details: str) -> None:
        """Set the text beside the status."""
        self._details = details

    def trailing_metadata(self) -> list[Any]:
        """What was set to be sent after the answer."""
        return self._trailing

    def set_trailing_metadata(self, metadata: list[Any]) -> None:
        """Send this after the answer."""
        self._trailing = list(metadata)

    def apply(self, call_context: Any) -> None:
        """Have gRPC send what was set."""
        if self._code is not None:
            call_context.set_code(self._code)
        if self._details is not None:
            call_context.set_details(self._details)
        if self._trailing:
            call_context.set_trailing_metadata(tuple(self._trailing))
