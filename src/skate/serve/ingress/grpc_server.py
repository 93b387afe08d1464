"""gRPC inside ingress replicas: all listen on one port, and the metadata key `application` says whose a request is."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import grpc
from grpc import aio

from skate.serve import context
from skate.serve.exceptions import BackPressureError, RayServeException, gRPCStatusError
from skate.serve.grpc_util import RayServegRPCContext
from skate.serve.handle.handle import DeploymentHandle
from skate.serve.importing import load
from skate.serve.replica.children import release
from skate.serve.routing import watch


class _Stub:
    """Stands for the user's servicer: each method of it leads to the method of that name of a deployment."""

    def __init__(self, server: GrpcServer) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        async def call(request: Any, call_context: Any) -> Any:
            return await self._server.call(name, request, call_context)

        return call


class GrpcServer:
    """The gRPC side of one replica."""

    def __init__(self, replica: Any, options: Any) -> None:
        self.replica = replica
        self.options = options
        self.server = aio.server(options=[("grpc.so_reuseport", 1)])
        for each in options.grpc_servicer_functions:
            add = load(each) if isinstance(each, str) else each
            add(_Stub(self), self.server)
        self._own = (replica.order.app, replica.order.name)

    async def start(self) -> None:
        """Listen. Raises RuntimeError if the port is taken."""
        await self.server.start()

    def stop_accepting(self, grace_s: float) -> None:
        """Finish what is there."""
        self._stopping = asyncio.get_running_loop().create_task(self.server.stop(grace_s))

    async def call(self, method: str, request: Any, call_context: Any) -> Any:
        """One request; answers that are streams are written as they come."""
        said = dict(call_context.invocation_metadata() or ())
        app = said.get("application", "")
        if not app:
            apps = sorted({key[0] for key in watch.current().table.lines})
            app = apps[0] if len(apps) == 1 else "default" if "default" in apps else self._own[0]
        request_id = said.get("request_id") or os.urandom(16).hex()
        await call_context.send_initial_metadata((("request_id", request_id),))
        around = context.RequestContext(
            request_id, method, app, said.get("multiplexed_model_id", ""), said.get("session_id", ""), set()
        )
        context.request.set(around)
        failed = True
        try:
            if app == self._own[0]:
                value = await self._here(method, request, call_context)
            else:
                value = await self._elsewhere(app, method, request, call_context)
            failed = False
            return value
        except gRPCStatusError as error:
            await call_context.abort(error.code or grpc.StatusCode.INTERNAL, error.details or str(error))
        except BackPressureError as error:
            await call_context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        except RayServeException as error:
            await call_context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except aio.AbortError:
            raise
        except Exception as error:  # whatever user code ends in, the client gets a status
            cause = getattr(error, "cause", error)
            if isinstance(cause, gRPCStatusError):
                await call_context.abort(cause.code or grpc.StatusCode.INTERNAL, cause.details or str(cause))
            await call_context.abort(grpc.StatusCode.INTERNAL, f"{type(cause).__name__}: {cause}")
        finally:
            release(around.children, failed)
        return None

    async def _here(self, name: str, request: Any, call_context: Any) -> Any:
        replica = self.replica
        try:
            method = replica.servable.method(name)
        except AttributeError as error:
            raise gRPCStatusError(error, grpc.StatusCode.UNIMPLEMENTED, str(error)) from None
        given: dict[str, Any] = {}
        if method.takes_context:
            given["grpc_context"] = RayServegRPCContext.of(call_context)
        await replica.gate.enter()
        started, failed = time.perf_counter(), True
        try:
            context.servable.set(replica.servable.object)
            if method.is_generator:
                async for each in replica.servable.stream(method, (request,), given):
                    await call_context.write(each)
                failed = False
                return None
            value = await replica.servable.call(method, (request,), given)
            failed = False
        finally:
            replica.gate.leave(time.perf_counter() - started, failed)
        if given:
            given["grpc_context"].apply(call_context)
        return value

    async def _elsewhere(self, app: str, name: str, request: Any, call_context: Any) -> Any:
        ingress = await watch.current().controller.ingress_of.remote(app)
        if ingress is None:
            raise RayServeException(f"there is no application {app!r}")
        return await DeploymentHandle(ingress, app).options(method_name=name).remote(request)


async def open_grpc(replica: Any, options: Any) -> GrpcServer:
    """Serve gRPC in a replica. Raises RuntimeError that names the port if it is taken."""
    made = GrpcServer(replica, options)
    try:
        made.server.add_insecure_port(f"127.0.0.1:{options.port}")
    except RuntimeError as error:
        raise RuntimeError(f"Serve cannot listen on 127.0.0.1:{options.port} for gRPC: {error}") from None
    await made.start()
    return made
