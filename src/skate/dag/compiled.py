"""Graphs that are checked once and executed many times, without a scheduler between their steps.

Each actor of the graph runs a loop (`loop.py`); inputs and results go through rings in shared memory
(`skate.experimental.channel`), written once and read in place. `execute` writes the input and returns a ref.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
import uuid
import weakref
from collections import deque
from typing import Any

import skate as ray
from skate.dag import loop, visualization
from skate.dag.context import DAGContext
from skate.dag.futures import buffer_full, read_for_futures, wake
from skate.dag.node import DAGNode, compiler
from skate.dag.node import build_compiled_dag_from_ray_dag as build_compiled_dag_from_ray_dag
from skate.dag.output_node import MultiOutputNode
from skate.dag.plan import DRIVER, Plan
from skate.dag.references import CompiledDAGFuture, CompiledDAGRef
from skate.dag.settings import Settings
from skate.dag.topology import Topology
from skate.exceptions import (
    ActorDiedError,
    RayActorError,
    RayCgraphCapacityExceeded,
    RayChannelError,
    RayChannelTimeoutError,
)
from skate.experimental.channel.graph import (
    SYSTEM_GROUP,
    Closed,
    Failure,
    GraphFile,
    Message,
    ValueReader,
    ValueWriter,
    Watch,
    at_shutdown,
)

#: How long to wait for the cause of an actor's death.
CAUSE_SECONDS = 3.0
#: How long actors of local mode, which are threads of this process, may take to end with the session.
LOCAL_SECONDS = 0.5


class CompiledDAG:
    """A graph of actor calls, executed by `execute` or `execute_async` until `teardown`.

    Created by `node.experimental_compile()`. Its restrictions are in `topology.py`.
    """

    def __init__(self, root: DAGNode, settings: Settings) -> None:
        self._id = uuid.uuid4().hex
        self._settings = settings
        self._topology = topology = Topology(root)
        self._multi = isinstance(root, MultiOutputNode)
        self._plan = plan = Plan(
            topology,
            settings.max_inflight_executions,
            settings.buffer_size_bytes,
            settings.default_communicator,
        )
        keys = [key for key, _ in plan.inputs if key is not None]
        indexes = [key for key in keys if isinstance(key, int)]
        self._names = [key for key in keys if isinstance(key, str)]
        self._positional = (max(indexes) + 1 if indexes else 0) if keys else 1
        self._lock = threading.RLock()
        #: Held by the thread that reads results.
        self._reading = threading.RLock()
        self._closed = False
        self._dead: int | None = None
        self._execution_index = 0
        self._finished = 0
        self._partial: dict[int, Any] = {}
        self._buffer: dict[int, dict[int, Any]] = {}
        self._released: deque[tuple[int, int]] = deque()
        self._destructed: dict[int, set[int]] = {}
        self._got: dict[int, set[int]] = {}
        self._awaited: dict[int, list[tuple[Any, Any]]] = {}
        self._work = threading.Semaphore(0)
        self._start()

    def _start(self) -> None:
        plan = self._plan
        for actor in plan.accelerated():
            call = actor.__ray_call__.options(concurrency_group=SYSTEM_GROUP)
            if not ray.get(call.remote(loop.has_accelerator)):
                raise ValueError(
                    f'Actor {actor} returns a tensor with type hint TorchTensor(transport="accelerator") or '
                    "TorchTensor(transport=accelerator_group_handle) but actor does not have an accelerator assigned by "
                    "Ray. Start it with num_gpus=1, or name a Communicator."
                )
        self._file = GraphFile(plan.place, DRIVER, create=True)
        try:
            begun = [
                actor.__ray_call__.options(concurrency_group=SYSTEM_GROUP).remote(
                    loop.start, plan.place, member, plan.steps(actor), plan.routes(actor)
                )
                for member, actor in enumerate(plan.actors, 1)
            ]
            ray.get(begun)
        except BaseException:
            self._file.rings.end()
            self._file.close()
            raise
        self._writers = [(key, ValueWriter(self._file, ring)) for key, ring in plan.inputs]
        rings = list(dict.fromkeys(plan.outputs))
        self._readers = [ValueReader(self._file, ring) for ring in rings]
        #: The reader of each output's value.
        self._sources = [rings.index(ring) for ring in plan.outputs]
        me = weakref.ref(self)
        pids = {member: self._file.rings.pid_of(member) for member in range(1, len(plan.actors) + 1)}
        self._watch = Watch(pids, lambda member: _member_ended(me, member))
        if self._settings.enable_asyncio:
            threading.Thread(
                target=read_for_futures, args=(me, self._work), name="skate-graph-results", daemon=True
            ).start()

    # -- properties

    def get_id(self) -> str:
        """The id of this graph, 32 hexadecimal digits."""
        return self._id

    @property
    def is_teardown(self) -> bool:
        """True once the graph has been torn down."""
        return self._closed

    @property
    def _result_buffer(self) -> dict[int, dict[int, Any]]:
        """Results that were read but not fetched, by execution and output."""
        self._settle()
        return self._buffer

    @property
    def _destructed_ref_idxs(self) -> dict[int, set[int]]:
        """The refs that were dropped, of executions that are not finished."""
        self._settle()
        return self._destructed

    @property
    def _got_ref_idxs(self) -> dict[int, set[int]]:
        """Fetched refs of executions that are not finished."""
        self._settle()
        return self._got

    def __repr__(self) -> str:
        return (
            f"CompiledDAG({self._topology.root!r}, {len(self._topology.nodes)} nodes, "
            f"{self._execution_index} executions)"
        )

    def visualize(
        self,
        filename: str = "compiled_graph",
        format: str = "png",
        view: bool = False,
        channel_details: bool = False,
    ) -> str:
        """Draw the graph: as DOT source, or with format="ascii" as text.

        "dot" and "gv" write the source to `filename.dot`; "png", "pdf" and the like are drawn by graphviz (the
        Python package or the program `dot`) into `filename.png`. Raises ImportError without it.
        """
        return visualization.visualize(self._topology, self._plan, filename, format, view, channel_details)

    # -- executing

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph; returns a CompiledDAGRef, or a list of them for a MultiOutputNode.

        Raises ValueError for arguments that do not match the graph, RayCgraphCapacityExceeded above
        `_max_inflight_executions`, RayChannelTimeoutError without room for the input in time, RayChannelError
        after `teardown`.
        """
        if self._settings.enable_asyncio:
            raise ValueError("Use execute_async if enable_asyncio=True: await graph.execute_async(...)")
        index = self._submit(args, kwargs)
        if not self._multi:
            return CompiledDAGRef(self, index)
        return [CompiledDAGRef(self, index, channel) for channel in range(len(self._sources))]

    async def execute_async(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph; returns a CompiledDAGFuture to await, or a list of them for a MultiOutputNode."""
        if not self._settings.enable_asyncio:
            raise ValueError("Use execute if enable_asyncio=False, or compile with enable_asyncio=True")
        running = asyncio.get_running_loop()
        futures = [running.create_future() for _ in self._sources]
        with self._lock:
            self._awaited[self._execution_index] = [(running, future) for future in futures]
            try:
                index = self._submit(args, kwargs)
            except BaseException:
                self._awaited.pop(self._execution_index, None)
                raise
        self._work.release()
        if not self._multi:
            return CompiledDAGFuture(self, index, futures[0])
        return [CompiledDAGFuture(self, index, future, channel) for channel, future in enumerate(futures)]

    def _submit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        self._check_open()
        self._check_arguments(args, kwargs)
        with self._lock:
            self._check_capacity()
            given = [
                args[0] if key is None else args[key] if isinstance(key, int) else kwargs[key]
                for key, _ in self._writers
            ]
            # Everything is packed and has room before the first write, so an input is written completely or not at all.
            messages = [Message(value) for value in given]
            until = time.monotonic() + self._settings.submit_timeout
            try:
                for _, writer in self._writers:
                    if not writer.wait_for_room(until):
                        raise RayChannelTimeoutError(
                            f"the input of the compiled graph found no room in {self._settings.submit_timeout} "
                            "s: the actors have not read earlier input. If the execution is expected to take a "
                            "long "
                            "time, increase RAY_CGRAPH_submit_timeout or _submit_timeout"
                        )
            except Closed:
                raise self._ended() from None
            for message, (_, writer) in zip(messages, self._writers, strict=True):
                writer.write(message)
            index = self._execution_index
            self._execution_index += 1
        return index

    def _check_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) != self._positional:
            raise ValueError(
                f"dag.execute() or dag.execute_async() must be called with {self._positional} positional args, got {len(args)}"
            )
        for name in self._names:
            if name not in kwargs:
                raise ValueError(f"dag.execute() or dag.execute_async() must be called with kwarg `{name}`")

    def _check_capacity(self) -> None:
        limit = self._settings.max_inflight_executions
        if self._execution_index - self._finished < limit:
            return
        self._discard(limit)
        inflight = self._execution_index - self._finished
        if inflight >= limit:
            raise RayCgraphCapacityExceeded(
                f"The compiled graph can't have more than {limit} in-flight executions, and you currently have {inflight} "
                "in-flight executions. Retrieve an output using ray.get before submitting more requests or increase "
                "`_max_inflight_executions`. `dag.experimental_compile(_max_inflight_executions=...)`"
            )

    def _discard(self, limit: int) -> None:
        """Wait for results without refs, until there is room for an execution."""
        if self._settings.enable_asyncio:
            return
        until = time.monotonic() + self._settings.submit_timeout
        with self._reading:
            self._settle()
            while self._execution_index - self._finished >= limit:
                gone = self._destructed.get(self._finished, ())
                if len(gone) < len(self._sources):
                    return
                try:
                    if not self._read_next(until):
                        return
                except Closed:
                    raise self._ended() from None

    # -- results

    def _fetch(self, index: int, channel: int | None, timeout: float | None) -> Any:
        """Wait for the value (or Failure) of an output of an execution."""
        if timeout is None:
            timeout = self._settings.get_timeout
        until = None if timeout < 0 else time.monotonic() + timeout
        self._check_open()
        if not self._reading.acquire(timeout=-1 if until is None else max(timeout, 0)):
            raise self._late()
        try:
            while self._finished <= index:
                self._settle()
                if len(self._buffer) >= self._settings.max_buffered_results:
                    raise buffer_full(self._settings.max_buffered_results, len(self._buffer))
                if self._closed or not self._read_next(until):
                    self._check_open()
                    raise self._late()
            return self._take(index, channel)
        except Closed:
            raise self._ended() from None
        finally:
            self._reading.release()

    def _late(self) -> RayChannelTimeoutError:
        return RayChannelTimeoutError(
            "If the execution is expected to take a long time, increase RAY_CGRAPH_get_timeout which is currently "
            f"{self._settings.get_timeout} seconds, or pass a longer timeout. Otherwise, this may indicate that the execution "
            "is hanging."
        )

    def _read_next(self, until: float | None) -> bool:
        """Read the results of the next execution; False after the deadline (monotonic time). `_reading` is held."""
        number = self._finished
        partial = self._partial
        readers = self._readers
        if len(readers) == 1 and readers[0].taken == number:
            if not readers[0].wait(until):
                return False
            partial[0] = readers[0].read()
        while True:
            failure = next((each for each in partial.values() if type(each) is Failure), None)
            for place, reader in enumerate(readers):
                if place in partial:
                    continue
                while reader.taken < number and reader.ready():  # from an execution that failed elsewhere
                    reader.skip()
                if reader.taken == number and reader.ready():
                    partial[place] = value = reader.read()
                    if type(value) is Failure:
                        failure = value
                        break
            if failure is not None or len(partial) == len(readers):
                break
            missing = [reader for place, reader in enumerate(readers) if place not in partial]
            ready = missing[0].ready if len(missing) == 1 else functools.partial(_any_ready, missing)
            if not self._file.wait_any(ready, until):
                return False
        self._partial = {}
        self._finished = number + 1
        channels = range(len(self._sources))
        if failure is not None:
            self._buffer[number] = dict.fromkeys(channels, failure)
        else:
            self._buffer[number] = {channel: partial[self._sources[channel]] for channel in channels}
        self._clean(number)
        return True

    def _take(self, index: int, channel: int | None) -> Any:
        with self._reading:
            place = channel or 0
            value = self._buffer[index].pop(place)
            self._got.setdefault(index, set()).add(place)
            self._clean(index)
        return value

    def _dropped(self, index: int, channel: int | None) -> None:
        """Record that a ref was dropped without being fetched; may be called in a finalizer."""
        self._released.append((index, channel or 0))

    def _settle(self) -> None:
        """Process the dropped refs."""
        with self._reading:
            while self._released:
                index, channel = self._released.popleft()
                self._destructed.setdefault(index, set()).add(channel)
                self._clean(index)

    def _clean(self, index: int) -> None:
        """Discard results without refs."""
        if index >= self._finished:
            return
        held = self._buffer.get(index, {})
        for channel in self._destructed.get(index, ()):
            held.pop(channel, None)
        if not held:
            for table in (self._buffer, self._destructed, self._got):
                table.pop(index, None)

    def _settle_futures(self, error: BaseException | None = None) -> None:
        """Wake the waiters of finished executions; with an error, all of them."""
        with self._lock:
            done = [index for index in self._awaited if error is not None or index < self._finished]
            woken = [pair for index in done for pair in self._awaited.pop(index)]
        for running, future in woken:
            if not running.is_closed():
                running.call_soon_threadsafe(wake, future, error)

    # -- teardown

    def _check_open(self) -> None:
        if self._closed:
            raise RayChannelError("Channel closed. The compiled graph was torn down; compile another one.")

    def _ended(self) -> BaseException:
        """Return the error for callers interrupted by the end of the graph."""
        member = self._dead
        if self._closed or member is None or not ray.is_initialized():
            return RayChannelError("Channel closed. The compiled graph was torn down; compile another one.")
        actor = self._plan.actors[member - 1]
        detail = f"It was {actor!r}, in a compiled graph."
        try:
            ray.get(actor.__ray_ready__.remote(), timeout=CAUSE_SECONDS)
        except RayActorError as error:
            detail = f"{detail}\n{error}"
        except Exception:  # it has died; the type of the error does not matter
            detail = f"{detail} The cause is unknown."
        return ActorDiedError(f"The actor died unexpectedly before finishing this task. {detail}")

    def teardown(self, kill_actors: bool = False) -> None:
        """End the graph, and wait up to `teardown_timeout` for the actors to leave it.

        With `kill_actors` they are killed immediately. Further calls have no effect.
        """
        with self._lock:
            first = not self._closed
            self._closed = True
        if first:
            self._file.rings.end()
            self._settle_futures(RayChannelError("Channel closed. The compiled graph was torn down."))
            self._work.release()
        actors = self._plan.actors
        if kill_actors and ray.is_initialized():
            for actor in actors:
                ray.kill(actor)
        if not first:
            return
        late = self._file.wait_until_left(
            list(range(1, len(actors) + 1)), DAGContext.get_current().teardown_timeout
        )
        if late:
            names = ", ".join(repr(actors[member - 1]) for member in late)
            logging.getLogger(__name__).warning(
                f"{names} of a compiled graph still run {DAGContext.get_current().teardown_timeout} s after teardown(); they "
                "leave the graph when their method ends. teardown(kill_actors=True) ends them at once"
            )
        self._watch.close()
        if self._reading.acquire(timeout=1):
            self._reading.release()
        self._release()

    def _release(self) -> None:
        for _, writer in self._writers:
            writer.close()
        for reader in self._readers:
            reader.close()
        self._writers = []
        self._readers = []
        self._file.close()

    def _abandon(self) -> None:
        """Close the channels without waiting. The actors leave on their own, or end with the session."""
        if getattr(self, "_watch", None) is None or self._closed:
            return
        self._closed = True
        self._file.rings.end()
        self._settle_futures(RayChannelError("Channel closed. The session has ended."))
        self._work.release()
        self._watch.close()
        self._file.wait_until_left(self._file.own_members(), LOCAL_SECONDS)
        self._release()

    def __del__(self) -> None:
        self._abandon()


def _any_ready(readers: list[ValueReader]) -> bool:
    return any(reader.ready() for reader in readers)


def _member_ended(me: weakref.ref[CompiledDAG], member: int) -> None:
    graph = me()
    if graph is not None and not graph._closed:
        graph._dead = member
        graph._file.rings.end()


_open: weakref.WeakSet[CompiledDAG] = weakref.WeakSet()


def _end_all() -> None:
    for graph in list(_open):
        graph._abandon()


def _compile(dag: DAGNode, **options: Any) -> CompiledDAG:
    graph = CompiledDAG(dag, Settings.of(**options))
    _open.add(graph)
    return graph


compiler.append(_compile)
at_shutdown(_end_all)
