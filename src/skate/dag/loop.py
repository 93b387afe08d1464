"""The loop of an actor: a thread that runs its share of a compiled graph, execution by execution.

It starts and ends with the graph. Other calls of the actor's methods run concurrently, as in Ray.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import skate as ray
from skate.experimental.channel.context import ChannelContext
from skate.experimental.channel.graph import (
    Closed,
    Failure,
    GraphFile,
    Message,
    Place,
    ValueReader,
    ValueWriter,
    adopt_call,
)

#: How often the graph's state is checked during an async method.
LOOK_SECONDS = 0.1
CONSTANT, LOCAL, RING = 0, 1, 2


class Step(NamedTuple):
    """One call of a method, or one part of a collective operation."""

    #: Number of the node.
    node: int
    #: The name of a method, or a function called with the actor before the arguments.
    method: Any
    #: (CONSTANT, value), (LOCAL, number of a node of this actor), or (RING, number of a ring).
    args: tuple[tuple[int, Any], ...]
    kwargs: dict[str, Any]
    #: Numbers of the nodes of the single results; empty if the result is one.
    parts: tuple[int, ...]
    #: Numbers of the rings that each node's value is written to.
    rings: dict[int, int]
    #: Its name in error messages.
    name: str


def start(actor: Any, place: Place, member: int, steps: list[Step], routes: dict[int, Any]) -> bool:
    """Start running these steps, in order, in a thread of this process."""
    ready = ChannelContext.get_current().communicators
    for step in steps:
        if not isinstance(step.method, str):
            step.method.prepare(ready)
    routes = {ring: route.prepare(ready) for ring, route in routes.items()}
    file = GraphFile(place, member)
    file.watch(0)
    loop = Loop(actor, file, steps, routes)
    loop.enter = adopt_call()
    threading.Thread(target=loop.run, name="skate-graph", daemon=True).start()
    return True


def has_accelerator(actor: Any) -> bool:
    """True if this process was assigned a GPU."""
    return bool(ray.get_gpu_ids())


class Loop:
    """An actor's share of a graph."""

    def __init__(self, actor: Any, file: GraphFile, steps: list[Step], routes: dict[int, Any]) -> None:
        self._actor = actor
        self._file = file
        self._steps = steps
        self._routes = routes
        #: Called first in the loop's thread.
        self.enter: Callable[[], None] = lambda: None
        wanted = {where for step in steps for kind, where in step.args if kind == RING}
        self._readers = {ring: ValueReader(file, ring) for ring in sorted(wanted)}
        self._writers = {ring: ValueWriter(file, ring) for step in steps for ring in step.rings.values()}
        self._last_use = _last_uses(steps)
        self._events: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Run until the graph is torn down, or the process that compiled it has ended."""
        self.enter()
        try:
            while True:
                self._once()
        except Closed:
            pass
        finally:
            self._close()

    def _close(self) -> None:
        for reader in self._readers.values():
            reader.close()
        for writer in self._writers.values():
            writer.close()
        self._file.rings.leave()
        self._file.close()
        # Release the memory now, not when a stored traceback is released.
        self._readers = {}
        self._writers = {}
        del self._file
        self._actor = None
        if self._events is not None:
            self._events.close()

    def _once(self) -> None:
        values: dict[tuple[int, Any], Any] = {}
        for place, step in enumerate(self._steps):
            args = [self._value(values, kind, where) for kind, where in step.args]
            self._publish(values, step, self._result(step, args))
            args = []
            for key in self._last_use.get(place, ()):
                values.pop(key, None)

    def _value(self, values: dict[tuple[int, Any], Any], kind: int, where: Any) -> Any:
        if kind == CONSTANT:
            return where
        key = (kind, where)
        if kind == RING and key not in values:
            reader = self._readers[where]
            reader.wait(None)
            value = reader.read()
            if where in self._routes and type(value) is not Failure:
                value = self._received(where, value)
            values[key] = value
        return values[key]

    def _result(self, step: Step, args: list[Any]) -> Any:
        """Return the result of a step: a value, a list of values if it has parts, or a Failure."""
        for arg in args:
            if type(arg) is Failure:
                return arg
        try:
            if isinstance(step.method, str):
                value = getattr(self._actor, step.method)(*args, **step.kwargs)
            else:
                value = step.method(*args)
            if inspect.iscoroutine(value):
                value = self._awaited(value)
            return value if not step.parts else _split(value, step)
        except Closed:
            raise
        except BaseException as error:  # a method may raise anything; the reader of the result gets it
            return Failure.of(error, step.name, self._actor)

    def _received(self, ring: int, envelope: Any) -> Any:
        try:
            return self._routes[ring].receive(envelope)
        except Exception as error:  # the communicator may raise anything; the value is lost
            return Failure.of(error, "recv", self._actor)

    def _awaited(self, coroutine: Any) -> Any:
        """Return the result of an async method, which runs in this thread's own event loop."""
        if self._events is None:
            self._events = asyncio.new_event_loop()
        return self._events.run_until_complete(self._while_open(coroutine))

    async def _while_open(self, coroutine: Any) -> Any:
        """Run a coroutine and return its result; it is cancelled when the graph is torn down."""
        task = asyncio.ensure_future(coroutine)
        while not (await asyncio.wait({task}, timeout=LOOK_SECONDS))[0]:
            if self._file.rings.closed:
                task.cancel()
                await asyncio.wait({task})
                raise Closed
        return task.result()

    def _publish(self, values: dict[tuple[int, Any], Any], step: Step, result: Any) -> None:
        if not step.parts or type(result) is Failure:
            found = dict.fromkeys(step.parts or (step.node,), result)
        else:
            found = dict(zip(step.parts, result, strict=True))
        for node, value in found.items():
            values[LOCAL, node] = value
            ring = step.rings.get(node)
            if ring is None:
                continue
            tensors: list[Any] = []
            try:
                if ring in self._routes and type(value) is not Failure:
                    value, tensors = self._routes[ring].pack(value)
                message = Message(value)
            except Exception as error:  # pickling may raise anything; the result is at fault
                wrong = TypeError(
                    f"the result of {step.name} cannot be sent: {type(error).__name__}: {error}"
                )
                message = Message(Failure.of(wrong, step.name, self._actor))
            writer = self._writers[ring]
            writer.wait_for_room(None)
            writer.write(message)
            if tensors:
                self._routes[ring].send(tensors)


def _split(value: Any, step: Step) -> list[Any]:
    try:
        parts = list(value)
    except TypeError:
        parts = [value]
    if len(parts) != len(step.parts):
        raise ValueError(
            f"{step.name}: Expected {len(step.parts)} outputs, but got {len(parts)} outputs; return num_returns "
            "values"
        )
    return parts


def _last_uses(steps: list[Step]) -> dict[int, list[tuple[int, Any]]]:
    """Return the inputs that each step uses for the last time, so that they can be released."""
    last: dict[tuple[int, Any], int] = {}
    for place, step in enumerate(steps):
        for node in step.parts or (step.node,):
            last[LOCAL, node] = place
        for kind, where in step.args:
            if kind != CONSTANT:
                last[kind, where] = place
    uses: dict[int, list[tuple[int, Any]]] = {}
    for key, place in last.items():
        uses.setdefault(place, []).append(key)
    return uses
