"""`@serve.multiplexed`: a cache of the most recently used models in each replica."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
import weakref
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from skate.serve import context
from skate.serve.logs import LOGGER
from skate.serve.metrics_http import BOUNDS_MS


class Times:
    """A number of events, and their times by class."""

    def __init__(self) -> None:
        self.count = 0
        self.milliseconds = 0.0
        self.classes = [0] * (len(BOUNDS_MS) + 1)

    def add(self, since: float) -> None:
        """Record an event that has begun at a time of `perf_counter` and ends now."""
        milliseconds = (time.perf_counter() - since) * 1e3
        self.count += 1
        self.milliseconds += milliseconds
        self.classes[bisect_left(BOUNDS_MS, milliseconds)] += 1


class Stats:
    """Statistics of all caches of this process."""

    def __init__(self) -> None:
        self.requests = 0
        self.loads = Times()
        self.unloads = Times()


stats = Stats()
#: The caches of this process.
caches: weakref.WeakSet[_ModelCache] = weakref.WeakSet()


class _ModelCache:
    """The models that an object or function has loaded, the most recently used one last."""

    def __init__(self, load: Callable[..., Any], limit: int) -> None:
        self.load = load
        self.limit = limit
        self.models: OrderedDict[str, Any] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Any]] = {}
        self._load_lock = asyncio.Lock()
        caches.add(self)

    async def get(self, model: str, *args: Any) -> Any:
        """Return a model, loading it if necessary; concurrent callers wait for the same load.

        Loading continues even if the callers are cancelled, because other callers may wait for it.
        """
        stats.requests += 1
        if model in self.models:
            self.models.move_to_end(model)
            return self.models[model]
        task = self._loading.get(model)
        if task is None:
            task = self._loading[model] = asyncio.get_running_loop().create_task(self._load(model, args))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _load(self, model: str, args: tuple[Any, ...]) -> Any:
        try:
            async with (
                self._load_lock
            ):  # one load at a time, so that memory never has more models than the limit
                await self._evict()
                begun = time.perf_counter()
                loaded = self.load(*args, model)
                if inspect.isawaitable(loaded):
                    loaded = await loaded
                stats.loads.add(begun)
                self.models[model] = loaded
                _finalizer(type(loaded))
        finally:
            del self._loading[model]
            publish_models(tuple(self.models))
        return loaded

    async def _evict(self) -> None:
        while self.limit > 0 and len(self.models) >= self.limit:
            await self._drop_oldest()

    async def _drop_oldest(self) -> None:
        _, old = self.models.popitem(last=False)
        begun = time.perf_counter()
        finalizer = _finalizer(type(old))
        if finalizer is not None:
            try:
                await finalizer(old)
            except Exception:  # an error of the evicted model must not affect the new one
                logging.getLogger(LOGGER).exception("the finalizer of a model failed")
        stats.unloads.add(begun)

    async def close(self) -> None:
        """Unload all models, because the replica ends."""
        while self.models:
            await self._drop_oldest()


def _finalizer(cls: Any) -> Any:
    """The async `__del__` of a class, or None; it is removed from the class, because the interpreter cannot await
    it.
    """
    kept = cls.__dict__.get("_serve_finalizer")
    if kept is not None:
        return kept
    found = getattr(cls, "__del__", None)
    if found is None or not inspect.iscoroutinefunction(found):
        return None
    cls._serve_finalizer = found
    cls.__del__ = lambda self: None
    return found


async def close_all(owner: Any) -> None:
    """Unload the models of an object or function."""
    for value in list(getattr(owner, "__dict__", {}).values()):
        if isinstance(value, _ModelCache):
            await value.close()


def publish_models(models: tuple[str, ...]) -> None:
    """Publish the models of this replica, so that requests for a model are sent to a replica that has it."""
    here = context.current_replica()
    if here is None:
        return
    from skate.serve.routing import watch  # only inside replicas

    name, app = here.replica_id.deployment_id
    try:
        watch.current().controller.models.remote((app, name), here.replica_tag, models)
    except ValueError:  # serve is shutting down
        return


def multiplexed(func: Callable[..., Any] | None = None, max_num_models_per_replica: int = 3) -> Any:
    """Decorate an async function of a model id to cache the models it loads: up to a limit, evicting the least
    recently used.

    A method takes the id after `self`. -1 means no limit. Raises TypeError if it is not async or takes no id,
    ValueError for an invalid number.
    """
    limit = max_num_models_per_replica
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"max_num_models_per_replica must be an integer. Got {limit!r}")
    if limit != -1 and limit <= 0:
        raise ValueError(f"max_num_models_per_replica must be positive. Got {limit}; use -1 for no limit")
    if func is not None and not callable(func):
        raise TypeError(
            "The `multiplexed` decorator must be used with a function or method. Pass its settings by name"
        )

    def decorate(function: Any) -> Any:
        if not inspect.iscoroutinefunction(function):
            raise TypeError(
                f"@serve.multiplexed can only be used to decorate async functions or methods. Got {function!r}"
            )
        parameters = list(inspect.signature(function).parameters)
        is_method = bool(parameters) and parameters[0] == "self"
        if len(parameters) != 1 + is_method:
            raise TypeError(
                "@serve.multiplexed can only be used to decorate functions or methods with at least "
                "one 'model_id: str' argument, and no others besides self"
            )
        place = f"_serve_models_{function.__name__}"

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            owner = given[:1] if is_method else []
            rest = given[len(owner) :]
            if len(rest) != 1:
                raise TypeError(
                    f"Functions decorated with `@serve.multiplexed` must take exactly one argument, the model ID, but "
                    f"{function.__name__} was called with {len(rest)} arguments"
                )
            model = rest[0]
            if not isinstance(model, str):
                raise TypeError(f"The model ID must be a string. Got {model!r}")
            if not model:
                raise ValueError(
                    "The model ID cannot be empty. Set handle.options(multiplexed_model_id=...), or send the header"
                )
            holder = (owner[0] if owner else wrapped).__dict__
            cache = holder.get(place)
            if cache is None:
                cache = holder[place] = _ModelCache(function, limit)
            return await cache.get(model, *owner)

        return wrapped

    return decorate if func is None else decorate(func)
