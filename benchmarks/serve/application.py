"""The measured application, for one target: `python application.py skate|ray|bare PORT` serves until its input ends.

The handle figures are measured in here and printed first, one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

TARGET, PORT = sys.argv[1], int(sys.argv[2])


def bare() -> None:
    import uvicorn

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b"hello"
        if scope["path"] == "/body":
            size, more = 0, True
            while more:
                message = await receive()
                size += len(message.get("body", b""))
                more = message.get("more_body", False)
            body = str(size).encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        if scope["path"] == "/stream":
            headers.pop()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["path"] == "/stream":
            for _ in range(1000):
                await send({"type": "http.response.body", "body": b"0123456789", "more_body": True})
            body = b""
        await send({"type": "http.response.body", "body": body})

    print(json.dumps({}), flush=True)
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", access_log=False)


def measured(call: Any, seconds: float = 1.0) -> float:
    """Calls a second."""
    call()
    began = time.perf_counter()
    count = 0
    while time.perf_counter() - began < seconds:
        count += call() or 1
    return count / (time.perf_counter() - began)


def deployments(serve: Any) -> tuple[Any, Any, Any]:
    """The measured deployments; the last one lives in the process of the first, where that is supported."""
    light: dict[str, Any] = {"ray_actor_options": {"num_cpus": 0}, "max_ongoing_requests": 1000}

    @serve.deployment(**light)
    class Inner:
        async def __call__(self, x: Any = None) -> Any:
            return x

        @serve.batch(max_batch_size=32, batch_wait_timeout_s=0.001)
        async def batched(self, values: list[Any]) -> list[Any]:
            return values

        async def one(self, value: Any) -> Any:
            return await self.batched(value)

        async def many(self, count: int) -> Any:
            for i in range(count):
                yield i

    @serve.deployment(**light)
    class Front:
        def __init__(self, inner: Any, near: Any) -> None:
            self.inner = inner
            self.near = near

        async def __call__(self, request: Any) -> Any:
            path = request.scope["path"]
            if path == "/body":
                return str(len(await request.body()))
            if path == "/two":
                return await self.inner.remote("hello")
            if path == "/near":
                return await self.near.remote("hello")
            if path == "/stream":
                from starlette.responses import StreamingResponse

                async def parts() -> Any:
                    for _ in range(1000):
                        yield b"0123456789"

                return StreamingResponse(parts(), media_type="text/plain")
            return "hello"

    async def same(x: Any) -> Any:
        return x

    near = {"in_process": True, "max_ongoing_requests": 1000} if TARGET == "skate" else light
    return Front, Inner, serve.deployment(name="Near", **near)(same)


def served() -> None:
    began = time.perf_counter()
    if TARGET == "ray":
        import ray
        from ray import serve
    else:
        import skate as ray
        from skate import serve
    imported = time.perf_counter()

    Front, Inner, Near = deployments(serve)
    if TARGET == "ray":
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, address="local")
    else:
        ray.init(num_cpus=2, log_to_driver=False)
    begun = time.perf_counter()
    app = Front.bind(Inner.bind(), Near.bind())
    if TARGET == "ray":
        serve.start(http_options={"port": PORT})
        serve.run(app)
    else:
        serve.run(app, port=PORT)
    figures: dict[str, float] = {"first run in a session, s": time.perf_counter() - begun}
    figures["session and first run, s"] = time.perf_counter() - imported
    figures["import, s"] = imported - began
    handle = serve.get_deployment_handle("Inner", app_name="default")
    figures["handle call, /s"] = measured(lambda: handle.remote(1).result() and 1)

    def flight(method: Any) -> int:
        responses = [method.remote(1) for _ in range(500)]
        for each in responses:
            each.result()
        return 500

    figures["handle calls in flight, /s"] = measured(lambda: flight(handle))
    figures["batched calls in flight, /s"] = measured(lambda: flight(handle.one))
    figures["values of a stream, /s"] = measured(
        lambda: len(list(handle.options(stream=True, method_name="many").remote(1000)))
    )
    began = time.perf_counter()
    serve.run(Inner.options(num_replicas=4).bind(), name="scaled", route_prefix="/scaled")
    figures["four replicas of a second application, s"] = time.perf_counter() - began
    began = time.perf_counter()
    serve.run(Inner.options(num_replicas=8).bind(), name="scaled", route_prefix="/scaled")
    figures["from four replicas to eight, s"] = time.perf_counter() - began
    serve.delete("scaled")
    print(json.dumps(figures), flush=True)
    sys.stdin.read()
    serve.shutdown()
    ray.shutdown()


if TARGET == "bare":
    bare()
else:
    served()
