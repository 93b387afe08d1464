"""`serve.run(..., _local_testing_mode=True)`: an application in this process, without replicas, for unit tests."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from skate.serve.deployment import Application
from skate.serve.graph import build
from skate.serve.handle.handle import DeploymentHandle
from skate.serve.identity import DEFAULT
from skate.serve.replica.servable import Servable


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="skate-serve-local", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


class LocalResponse:
    """The answer of a local call."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def result(self, *, timeout_s: float | None = None, **_: Any) -> Any:
        """The answer."""
        return self._future.result(timeout_s)

    def __await__(self) -> Any:
        return asyncio.wrap_future(self._future).__await__()

    def cancel(self) -> None:
        """Give it up."""
        self._future.cancel()

    def cancelled(self) -> bool:
        """True if it was given up."""
        return bool(self._future.cancelled())


class LocalHandle(DeploymentHandle):
    """Calls an object of this process."""

    def __init__(self, name: str, app: str, servable: Servable, loop: _Loop, **said: Any) -> None:
        super().__init__(name, app, handle_options=said)
        self._servable = servable
        self._loop = loop

    def options(self, **said: Any) -> DeploymentHandle:
        """The same with other options."""
        merged = {**self._said(), **{key: value for key, value in said.items() if value is not DEFAULT.VALUE}}
        return LocalHandle(self.deployment_name, self.app_name, self._servable, self._loop, **merged)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        method = self._servable.method(self._method)
        if self._stream:
            return self._streamed(method, args, kwargs)
        return LocalResponse(self._loop.call(self._called(method, args, kwargs)))

    async def _called(self, method: Any, args: Any, kwargs: Any) -> Any:
        args = tuple([await each if isinstance(each, LocalResponse) else each for each in args])
        kwargs = {
            key: await each if isinstance(each, LocalResponse) else each for key, each in kwargs.items()
        }
        return await self._servable.call(method, args, kwargs)

    def _streamed(self, method: Any, args: Any, kwargs: Any) -> Any:
        generator = self._servable.stream(method, args, kwargs)

        class Values:
            def __iter__(inner) -> Any:  # noqa: N805 (two selves)
                return inner

            def __next__(inner) -> Any:  # noqa: N805
                try:
                    return self._loop.call(generator.__anext__()).result()
                except StopAsyncIteration:
                    raise StopIteration from None

            def __aiter__(inner) -> Any:  # noqa: N805
                return inner

            async def __anext__(inner) -> Any:  # noqa: N805
                return await asyncio.wrap_future(self._loop.call(generator.__anext__()))

        return Values()


_loops: list[_Loop] = []


def end_all() -> None:
    """End what was run here."""
    while _loops:
        _loops.pop().end()


def run_locally(app: Application, name: str) -> DeploymentHandle:
    """Make all deployments of an application in this process; a handle to its ingress. Raises as `serve.run` does."""
    build(app, name, "/")
    loop = _Loop()
    _loops.append(loop)
    made: dict[int, LocalHandle] = {}

    def handle_of(each: Any) -> Any:
        if not isinstance(each, Application):
            return each
        known = made.get(id(each))
        if known is None:
            bound = each._bound_deployment
            servable = Servable(bound.func_or_class, bound.name, bound.max_ongoing_requests)
            args = tuple(handle_of(arg) for arg in bound.init_args)
            kwargs = {key: handle_of(arg) for key, arg in bound.init_kwargs.items()}
            loop.call(servable.make(args, kwargs)).result()
            if bound.user_config is not None:
                loop.call(servable.maybe("reconfigure", bound.user_config)).result()
            known = made[id(each)] = LocalHandle(bound.name, name, servable, loop)
        return known

    found: DeploymentHandle = handle_of(app)
    return found
