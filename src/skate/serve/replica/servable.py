"""Creates and calls the user's class or function: async code in the loop, other code in threads."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import skate
from skate.serve import context
from skate.serve.exceptions import RayServeException
from skate.serve.replica import grpc_method

_END = object()


class NoMethodError(RayServeException, AttributeError):
    """A call names a method that the deployment does not have."""


class Method:
    """A method of the user's object, and its kind."""

    __slots__ = ("call", "is_async", "is_generator", "name", "takes_context", "takes_request")

    def __init__(self, call: Callable[..., Any], name: str) -> None:
        self.call = call
        self.name = name
        plain = call
        while isinstance(plain, functools.partial):
            plain = plain.func
        if not inspect.isroutine(plain):
            plain = getattr(plain, "__call__", plain)  # noqa: B004 (an object with a method of that name)
        batched = getattr(
            plain, "_is_async_generator", False
        )  # a plain function, which must be called in the loop
        yields = batched or inspect.isasyncgenfunction(plain)
        self.is_generator = yields or inspect.isgeneratorfunction(plain)
        self.is_async = yields or inspect.iscoroutinefunction(plain)
        try:
            parameters = inspect.signature(call).parameters
            self.takes_request = bool(parameters)
            self.takes_context = "grpc_context" in parameters
        except (TypeError, ValueError):  # a C function without a signature
            self.takes_request = True
            self.takes_context = False


class Servable:
    """The served class or function."""

    def __init__(self, target: Any, name: str, threads: int) -> None:
        self.target = target
        self.name = name
        self.object: Any = None
        self.is_function = not inspect.isclass(target)
        self._methods: dict[str, Method] = {}
        self._concurrency = threads
        self._threads = max(1, min(threads, 64))
        self._pool: ThreadPoolExecutor | None = None

    async def make(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the constructor."""
        if self.is_function:
            self.object = self.target
            return
        constructor = self.target.__init__
        if inspect.iscoroutinefunction(constructor):
            self.object = self.target.__new__(self.target)
            context.servable.set(self.object)
            await constructor(self.object, *args, **kwargs)
        else:
            # In the loop's thread, because loops, CUDA contexts and signal handlers belong to the thread that creates them.
            self.object = self.target(*args, **kwargs)
        if hasattr(self.object, "__serve_task_consumer__"):
            self.object.initialize_callable(self._concurrency)

    def method(self, name: str) -> Method:
        """Return a method by name. Raise NoMethodError, which lists the existing names, if there is none."""
        found = self._methods.get(name)
        if found is None:
            found = self._methods[name] = self._find(name)
        return found

    def _find(self, name: str) -> Method:
        if name.startswith(grpc_method.PREFIX):
            _, kind, own = name.split(":", 2)
            return Method(getattr(grpc_method, kind)(self, own), own)
        if self.is_function:
            return Method(self.object, name)  # by any name, as in Ray
        call = getattr(self.object, name, None)
        if call is None or (name == "__call__" and not callable(self.object)):
            import difflib  # only errors need it

            known = [
                each
                for each in dir(self.object)
                if not each.startswith("_") and callable(getattr(self.object, each))
            ]
            if any("__call__" in vars(each) for each in type(self.object).__mro__):
                known.append("__call__")
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise NoMethodError(
                f"Tried to call a method '{name}' that does not exist. Available methods: {known}. The deployment is "
                f"{self.name}.{hint}"
            )
        if not callable(call):
            raise TypeError(
                f"{call!r:.80} is not a callable object: it is the attribute {name!r} of {self.name}"
            )
        return Method(call, name)

    async def call(self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method and wait for its result."""
        if method.is_generator:
            raise self.wrongly_called(method)
        if method.is_async:
            return await method.call(*args, **kwargs)
        value = await self.in_thread(method.call, args, kwargs)
        if inspect.isawaitable(value) and not isinstance(value, skate.ObjectRef):
            return await value
        return value

    def wrongly_called(self, method: Method) -> TypeError:
        """Return the error for a call of a generator that does not request a stream."""
        return TypeError(
            f"Method '{method.name}' returned a generator. You must use `handle.options(stream=True)` to call "
            f"generators on a deployment; this one is {self.name}"
        )

    async def stream(
        self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Call a generator, and yield its values."""
        if not method.is_generator:
            value = await self.call(method, args, kwargs)
            if not hasattr(value, "__aiter__") and not inspect.isgenerator(value):
                raise TypeError(
                    f"Called method '{method.name}' with `handle.options(stream=True)` but it did not return a generator: "
                    f"{self.name} returned a {type(value).__name__}"
                )
            generator = value
        else:
            generator = method.call(*args, **kwargs)
        async for each in self.values(generator):
            yield each

    async def values(self, generator: Any) -> AsyncIterator[Any]:
        """Iterate over a generator of either kind. A sync one advances in a thread."""
        if hasattr(generator, "__aiter__"):
            try:
                async for each in generator:
                    yield each
            finally:
                close = getattr(generator, "aclose", None)
                if close is not None:
                    await close()
            return
        iterator = iter(generator)
        try:
            while True:
                value = await self.in_thread(next, (iterator, _END), {})
                if value is _END:
                    return
                yield value
        finally:
            close = getattr(generator, "close", None)
            if close is not None:
                close()

    async def in_thread(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run sync code in a thread, with the request's context."""
        pool = self._pool
        if pool is None:
            pool = self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="serve")
        around = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            pool, functools.partial(around.run, _called, call, args, kwargs)
        )

    async def maybe(self, name: str, *args: Any, **kwargs: Any) -> bool:
        """Call an optional method of the user's object; return False if it has none."""
        call = None if self.is_function else getattr(self.object, name, None)
        if call is None:
            return False
        value = call(*args, **kwargs)
        if inspect.isawaitable(value):
            await value
        return True

    @property
    def takes_rank(self) -> bool:
        """True if the user's `reconfigure` takes the rank of its replica."""
        call = None if self.is_function else getattr(self.object, "reconfigure", None)
        return call is not None and "rank" in inspect.signature(call).parameters

    async def reconfigure(self, user_config: Any, rank: context.ReplicaRank) -> None:
        """Pass the user_config, if there is one, to the user's `reconfigure`, and the rank if it takes that.

        Raise ValueError for a function, RayServeException for an object without such a method.
        """
        ranked = self.takes_rank
        if user_config is None and not ranked:
            return
        if self.is_function:
            raise ValueError(
                f"deployment_def must be a class to use user_config or rank: the deployment {self.name} is a function"
            )
        if not await self.maybe("reconfigure", user_config, **({"rank": rank} if ranked else {})):
            raise RayServeException(
                f"user_config or rank specified but deployment {self.name} missing reconfigure method, which would take it: "
                "reconfigure(self, user_config)"
            )

    async def metadata(self) -> dict[str, Any]:
        """Return the metadata that the user's object records (`record_replica_metadata`).

        Raise TypeError if it is not a dict.
        """
        call = None if self.is_function else getattr(self.object, "record_replica_metadata", None)
        if call is None:
            return {}
        stats = call()
        if inspect.isawaitable(stats):
            stats = await stats
        if not isinstance(stats, dict | None):
            raise TypeError(
                f"record_replica_metadata must return a dict, got {type(stats).__name__}. {self.name} returned {stats!r:.80}"
            )
        return stats or {}

    async def end(self) -> None:
        """Clean up the user's object: close its models, and then call its `__del__`, which may be async."""
        multiplex = sys.modules.get("skate.serve.multiplex")
        if multiplex is not None:
            await multiplex.close_all(self.object)
        if not self.is_function and hasattr(self.object, "__del__"):
            cls = type(self.object)
            finalizer = cls.__del__
            try:
                value = finalizer(self.object)
                if inspect.isawaitable(value):
                    await value
            finally:
                cls.__del__ = lambda self: None  # it has run, and the interpreter would run it again
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _called(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function whose error goes into a future, which does not take StopIteration."""
    try:
        return call(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"coroutine raised StopIteration: {error!r}") from error
