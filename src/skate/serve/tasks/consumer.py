"""Deployments that take their work from a queue of tasks."""

from __future__ import annotations

import functools
import inspect
import logging
import types
from collections.abc import Callable
from typing import Any

from skate.installed import MissingPackageError
from skate.serve.code.import_path import load
from skate.serve.tasks.adapter import CONCURRENCY, TaskProcessorAdapter
from skate.serve.tasks.records import TaskProcessorConfig

logger = logging.getLogger("ray.serve")


def instantiate_adapter_from_config(task_processor_config: TaskProcessorConfig) -> TaskProcessorAdapter:
    """Build an adapter that is ready to send tasks.

    Args:
        task_processor_config: the queue. Its `adapter` is a class, or an import path such as "package.module.Class".

    Raises:
        TypeError: `adapter` is neither, or not a TaskProcessorAdapter.
        RuntimeError: the adapter's constructor or `initialize` failed; the message has the reason.
        ModuleNotFoundError, AttributeError: the import path leads to nothing.
    """
    return _adapter(task_processor_config, CONCURRENCY)


def _adapter(config: TaskProcessorConfig, concurrency: int) -> TaskProcessorAdapter:
    kind = config.adapter
    if isinstance(kind, str):
        kind = load(kind)
    elif not callable(kind):
        raise TypeError(
            f"the adapter must be a class or its import path (a string path or a callable class), got {kind!r:.80}"
        )
    name = getattr(kind, "__name__", repr(kind))
    try:
        made = kind(config)
    except MissingPackageError:
        raise
    except Exception as error:  # the constructor is the user's
        raise RuntimeError(f"Failed to instantiate {name}: {error}") from error
    if not isinstance(made, TaskProcessorAdapter):
        raise TypeError(
            f"{name} must inherit from TaskProcessorAdapter; calling it made a {type(made).__name__}"
        )
    try:
        made.initialize(concurrency)
    except MissingPackageError:
        raise
    except Exception as error:  # so is this method
        raise RuntimeError(f"Failed to initialize {name}: {error}") from error
    return made


def task_consumer(*, task_processor_config: TaskProcessorConfig) -> Callable[[type], type]:
    """Make a class handle the tasks of a queue; written between the class and `@serve.deployment`.

    Each replica runs up to `max_ongoing_requests` tasks at once, in threads.

    Args:
        task_processor_config: the queue.
    """

    def decorate(cls: type) -> type:
        fields = {"_task_class": cls, "_task_config": task_processor_config}
        kind = types.new_class(cls.__name__, (_Consumer, cls), exec_body=lambda space: space.update(fields))
        for name in ("__module__", "__qualname__", "__doc__"):
            setattr(kind, name, getattr(cls, name))
        return kind

    return decorate


class _Consumer:
    """The methods that `task_consumer` adds to a class."""

    #: Tells a replica that the object has a consumer to be started.
    __serve_task_consumer__ = True
    _task_class: type
    _task_config: TaskProcessorConfig
    _adapter: TaskProcessorAdapter | None = None

    def initialize_callable(self, consumer_concurrency: int) -> None:
        """Register the handlers, and start to take tasks; a replica calls this after the constructor."""
        adapter = self._adapter = _adapter(self._task_config, consumer_concurrency)
        for name, method in inspect.getmembers(self._task_class, predicate=inspect.isfunction):
            if getattr(method, "_is_task_handler", False):
                adapter.register_task_handle(getattr(self, name), getattr(method, "_task_name", name))
        adapter.start_consumer()
        logger.info("the consumer of the queue %r has started", self._task_config.queue_name)

    def check_health(self) -> Any:
        """Raise RuntimeError if the consumer has ended, and otherwise do the health check of the class itself."""
        check = getattr(self._adapter, "check_consumer", None)
        if check is not None:
            check()
        own = getattr(super(), "check_health", None)
        return own() if own is not None else None

    def __del__(self) -> Any:
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            adapter.stop_consumer()
        own = getattr(super(), "__del__", None)
        return own() if own is not None else None


def task_handler(_func: Callable[..., Any] | None = None, *, name: str | None = None) -> Callable[..., Any]:
    """Make a method of a task consumer handle the tasks of a name.

    Args:
        name: the name of the tasks; by default the method's.

    Raises:
        ValueError: the name is empty or not a text.
    """
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ValueError(
            f"Task name must be a non-empty string, got {name!r}. Leave it out to use the method's name"
        )

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        handler: Any
        if inspect.iscoroutinefunction(method):

            @functools.wraps(method)
            async def handler(*args: Any, **kwargs: Any) -> Any:
                return await method(*args, **kwargs)

        else:

            @functools.wraps(method)
            def handler(*args: Any, **kwargs: Any) -> Any:
                return method(*args, **kwargs)

        handler._is_task_handler = True
        handler._task_name = name or method.__name__
        marked: Callable[..., Any] = handler
        return marked

    return decorate if _func is None else decorate(_func)
