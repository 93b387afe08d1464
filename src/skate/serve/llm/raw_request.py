"""The part of an HTTP request that is forwarded to the replica with the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skate.serve.llm.relay import Destination


@dataclass(frozen=True)
class RawRequestInfo:
    """The headers by lower-case name, the address of a stream's direct connection, and the client's id."""

    headers: dict[str, str] = field(default_factory=dict)
    destination: Destination | None = None
    client: str = ""

    @classmethod
    def from_starlette_request(cls, request: Any) -> RawRequestInfo:
        """Build from a received request."""
        return cls(dict(request.headers))

    def to_starlette_request(self) -> Any:
        """Return a request with only the headers."""
        from starlette.requests import Request  # imported here because replicas of models may not need it

        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()
        ]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        return Request(scope)
