"""The execution context of a worker: the task of the current thread or coroutine, the lease, the actor."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.protocol.fields import ConstructFields, LeaseFields
from skate.client.process import Process
from skate.worker.worker_core import Running


class ActorExit(BaseException):
    """Raised to unwind a method whose actor leaves."""


_running: contextvars.ContextVar[Running | None] = contextvars.ContextVar("skate_running", default=None)
#: Set the task of the current thread or coroutine.
set_running = _running.set


class WorkerContext:
    """Describes the running task, its lease and its actor to user code."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lease: LeaseFields = {}
        self.actor_id = b""
        self.actor_fields: ConstructFields = {}
        self.actor_template: Any = None
        self.actor_environment: str | None = None
        self.group: bytes | None = None
        self.captured_group: bytes | None = None
        #: Makes an asyncio actor leave, also from a coroutine that is not a call.
        self.on_exit: Callable[[], None] | None = None
        #: The last task of the main thread, for threads that user code starts.
        self.main: Running | None = None

    def enter(self, running: Running | None) -> None:
        """Set the task of the current thread or coroutine."""
        _running.set(running)

    def current(self) -> Running | None:
        """Return the task of the current thread or coroutine."""
        return _running.get() or self.main

    def task_id(self) -> bytes:
        """Return the id of the running task, or empty bytes."""
        running = self.current()
        return b"" if running is None else running.task_id

    def template(self) -> dict[str, Any] | None:
        """Return the template fields of the running task."""
        running = self.current()
        return None if running is None else running.template.fields

    def function_name(self) -> str | None:
        """Return module and name of the running function; the module of a script is its file name."""
        running = self.current()
        if running is None:
            return None
        template = running.template
        if self.actor_template is None:
            function, name = template.load(self.process), template.fields["qualified"]
        else:
            cls = self.actor_template.load(self.process)
            method = template.method or "__init__"
            function = getattr(cls, method, cls)
            name = f"{self.actor_template.fields['qualified']}.{method}"
        module: str = function.__module__
        if module == "__main__" and hasattr(function, "__code__"):
            module = os.path.basename(function.__code__.co_filename).removesuffix(".py")
        return f"{module}.{name}"

    def environment(self) -> dict[str, Any] | None:
        """Return the runtime environment that tasks started here inherit."""
        text = self.actor_environment or (self.template() or {}).get("environment")
        if not text:
            return None
        import json  # only programs with runtime environments need it

        found: dict[str, Any] = json.loads(text)
        return found

    def resources(self) -> dict[str, int]:
        """Return the resources of the worker, in units."""
        held: dict[str, int] = self.lease.get("resources", {})
        return held

    def gpus(self) -> list[Any]:
        """Return the ids of the GPUs that the worker holds."""
        return list(self.lease.get("gpus", ()))

    def devices(self) -> dict[str, list[Any]]:
        """Return the numbers of the other accelerators that the worker holds, by resource name."""
        return dict(self.lease.get("devices") or {})

    def is_cancelled(self) -> bool:
        """Return True if the running task was cancelled. Raise RuntimeError in an asyncio actor."""
        if self.actor_template is not None and self.actor_template.fields.get("is_async"):
            raise RuntimeError(
                "is_canceled() is not for asyncio actors: a call that is cancelled there gets asyncio.CancelledError"
            )
        running = self.current()
        return running is not None and running.cancelled

    def take_lease(self, lease: LeaseFields) -> None:
        """Record the lease that the node grants to this worker."""
        self.lease = lease
        self.process.namespace = lease.get("namespace") or self.process.namespace
        self.group = lease.get("group")
        self.captured_group = self.group if lease.get("capture") else None

    def exit_actor(self) -> None:
        """End the actor from inside one of its methods."""
        if self.on_exit is not None:
            self.on_exit()
        raise ActorExit
