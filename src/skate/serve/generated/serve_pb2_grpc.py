"""Client and server of `ray.serve.RayServeAPIService`."""

from __future__ import annotations

from typing import Any

import grpc

from skate.serve.generated import serve_pb2

_METHODS = ("ListApplications", "Healthz")
_NAME = f"{serve_pb2.PACKAGE}.{serve_pb2.SERVICE}"


class RayServeAPIServiceStub:
    """Calls `Healthz` and `ListApplications` over a channel."""

    def __init__(self, channel: Any) -> None:
        for method in _METHODS:
            request = getattr(serve_pb2, f"{method}Request")
            response = getattr(serve_pb2, f"{method}Response")
            call = channel.unary_unary(
                f"/{_NAME}/{method}",
                request_serializer=request.SerializeToString,
                response_deserializer=response.FromString,
            )
            setattr(self, method, call)


class RayServeAPIServiceServicer:
    """Serve's own gRPC service."""

    def ListApplications(self, request: Any, context: Any) -> Any:  # noqa: N802 (the service's name)
        """Return the names of all applications."""
        context.set_code(grpc.StatusCode.UNIMPLEMENTED)

    def Healthz(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Report healthy while requests are accepted."""
        context.set_code(grpc.StatusCode.UNIMPLEMENTED)


def add_RayServeAPIServiceServicer_to_server(servicer: Any, server: Any) -> None:  # noqa: N802
    """Register the service with a server."""
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            getattr(servicer, method),
            request_deserializer=getattr(serve_pb2, f"{method}Request").FromString,
            response_serializer=getattr(serve_pb2, f"{method}Response").SerializeToString,
        )
        for method in _METHODS
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_NAME, handlers),))
