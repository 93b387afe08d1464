"""Methods called by gRPC: they take a context beside the request, and return it with the response."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from skate.serve.exceptions import gRPCStatusError
from skate.serve.grpc_util import gRPCInputStream

#: The prefix of the names of such methods.
PREFIX = "grpc:"


class RemoteMessages:
    """The messages of a stream that another process reads."""

    def __init__(self, reader: Any, stream: str) -> None:
        self._reader = reader
        self._stream = stream

    def __aiter__(self) -> RemoteMessages:
        return self

    async def __anext__(self) -> Any:
        more, message = await self._reader.grpc_next.remote(self._stream)
        if not more:
            raise StopAsyncIteration
        return message


def unary(servable: Any, name: str) -> Any:
    """Return a method with a single response as a function of request and context."""

    async def call(request: Any, grpc_context: Any) -> tuple[Any, Any]:
        method, argument, given = _prepared(servable, name, request, grpc_context)
        try:
            return await servable.call(method, (argument,), given), grpc_context
        except Exception as error:  # keep a status that the method has set before
            raise _with_status(error, grpc_context) from error

    return call


def stream(servable: Any, name: str) -> Any:
    """Return a streaming method as a function that yields (value, None) for each value, and (None, context) at the end."""

    async def call(request: Any, grpc_context: Any) -> AsyncIterator[tuple[Any, Any]]:
        method, argument, given = _prepared(servable, name, request, grpc_context)
        try:
            async for each in servable.stream(method, (argument,), given):
                yield each, None
        except Exception as error:  # the method may raise anything
            raise _with_status(error, grpc_context) from error
        yield None, grpc_context

    return call


def _prepared(servable: Any, name: str, request: Any, grpc_context: Any) -> tuple[Any, Any, dict[str, Any]]:
    try:
        method = servable.method(name)
    except AttributeError as error:
        import grpc  # replicas behind the ingress need it only here

        raise gRPCStatusError(error, grpc.StatusCode.UNIMPLEMENTED, str(error)) from None
    if hasattr(request, "__anext__"):
        request = gRPCInputStream(request)
    return method, request, {"grpc_context": grpc_context} if method.takes_context else {}


def _with_status(error: Exception, grpc_context: Any) -> Exception:
    if grpc_context.code() is None or isinstance(error, gRPCStatusError):
        return error
    return gRPCStatusError(error, grpc_context.code(), grpc_context.details() or str(error))
