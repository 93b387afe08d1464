"""Clients and servers of the services in `serve_pb2`."""

from __future__ import annotations

from typing import Any

import grpc

from skate.serve.generated import serve_pb2


class _Stub:
    """Has the methods of a service, called over a channel."""

    _service = ""

    def __init__(self, channel: Any) -> None:
        for method, (taken, returned, kind) in serve_pb2.SERVICES[self._service].items():
            call = getattr(channel, kind)(
                f"/{serve_pb2.PACKAGE}.{self._service}/{method}",
                request_serializer=getattr(serve_pb2, taken).SerializeToString,
                response_deserializer=getattr(serve_pb2, returned).FromString,
            )
            setattr(self, method, call)


class _Servicer:
    """Answers UNIMPLEMENTED to each method that a subclass does not have."""

    _service = ""

    def __init_subclass__(cls) -> None:
        for method in serve_pb2.SERVICES[cls._service]:
            if not any(method in vars(each) for each in cls.__mro__):
                setattr(cls, method, _unimplemented)


def _unimplemented(self: Any, request: Any, context: Any) -> Any:
    context.set_code(grpc.StatusCode.UNIMPLEMENTED)
    context.set_details("Method not implemented!")
    raise NotImplementedError("Method not implemented!")


def _add(service: str, servicer: Any, server: Any) -> None:
    handlers = {
        method: getattr(grpc, f"{kind}_rpc_method_handler")(
            getattr(servicer, method),
            request_deserializer=getattr(serve_pb2, taken).FromString,
            response_serializer=getattr(serve_pb2, returned).SerializeToString,
        )
        for method, (taken, returned, kind) in serve_pb2.SERVICES[service].items()
    }
    name = f"{serve_pb2.PACKAGE}.{service}"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))


class RayServeAPIServiceStub(_Stub):
    """Calls `Healthz` and `ListApplications` over a channel."""

    _service = "RayServeAPIService"


class RayServeAPIServiceServicer(_Servicer):
    """Serve's own gRPC service."""

    _service = "RayServeAPIService"


class UserDefinedServiceStub(_Stub):
    """Calls a service with methods of all kinds, for trying gRPC."""

    _service = "UserDefinedService"


class UserDefinedServiceServicer(_Servicer):
    """A service with methods of all kinds, for trying gRPC."""

    _service = "UserDefinedService"


class FruitServiceStub(_Stub):
    """Calls a service with one method, for trying gRPC."""

    _service = "FruitService"


class FruitServiceServicer(_Servicer):
    """A service with one method, for trying gRPC."""

    _service = "FruitService"


def add_RayServeAPIServiceServicer_to_server(servicer: Any, server: Any) -> None:  # noqa: N802 (as generated)
    """Register Serve's own service with a server."""
    _add("RayServeAPIService", servicer, server)


def add_UserDefinedServiceServicer_to_server(servicer: Any, server: Any) -> None:  # noqa: N802
    """Register a UserDefinedService with a server."""
    _add("UserDefinedService", servicer, server)


def add_FruitServiceServicer_to_server(servicer: Any, server: Any) -> None:  # noqa: N802
    """Register a FruitService with a server."""
    _add("FruitService", servicer, server)
