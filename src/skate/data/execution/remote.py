"""Execution of pieces of work in tasks of the session, and in actors for operators with a pool."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import skate
from skate.data import preload_workers
from skate.data.execution import work as works
from skate.data.execution.actor_pool import ActorPool, request_of, task_options
from skate.data.execution.bundle import Bundle
from skate.data.execution.local import Event
from skate.data.execution.operators import Running, Work
from skate.data.execution.policy import allot

#: The most blocks that a piece of work makes ahead of its consumer before it waits; each is two values of its stream.
AHEAD_BLOCKS = 2
#: The options of a call that yields blocks, each with its metadata.
_STREAMING = {"num_returns": "streaming", "_generator_backpressure_num_objects": 2 * AHEAD_BLOCKS}
#: Adjacent parts of partitions are returned together until they have about this many bytes: smaller values
#: travel in messages and are kept in the driver's own memory, where they are not counted.
_RUN_BYTES = 512 << 10

_numbers = itertools.count()


class _Stream:
    """The results of one piece of work so far: each block, followed by its metadata."""

    __slots__ = ("work", "refs", "block")

    def __init__(self, work: Work, refs: Any) -> None:
        self.work = work
        self.refs = refs
        self.block: Any = None


class RemoteRunner:
    """Runs pieces of work as tasks, and in actors for operators with a pool."""

    def __init__(self, operators: list[Running], totals: Mapping[str, float]) -> None:
        self._streams: dict[Any, _Stream] = {}
        self._single: dict[Any, tuple[Work, Any]] = {}
        self._holders: dict[int, tuple[str, list[Any]]] = {}
        self._tasks: dict[str, Any] = {}
        self._pools: dict[int, ActorPool] = {}
        # If others hold all CPUs permanently, such as training workers, tasks request none.
        self._cpus_taken = totals.get("CPU", 0) < 1
        preload_workers()
        self._plan_pools(operators, totals)

    def _plan_pools(self, operators: list[Running], totals: Mapping[str, float]) -> None:
        """Divide the cluster among pools, so that all pools and the tasks beside them have room.

        Where that is impossible, actors and tasks without an explicit CPU request use no CPU. Raises ValueError
        if not even one actor of each pool fits at the same time.
        """
        pooled: list[Any] = [op for op in operators if op.compute.actors is not None]
        if not pooled:
            return
        tasks = any(op.compute.actors is None and not op.passes and not op.finished for op in operators)
        ones = [1] * len(pooled)
        for spare, lean in (1, False), (0, False), (0, True):
            room = {**totals, "CPU": totals.get("CPU", 0) - (spare if tasks else 0)}
            requested = [request_of(op, lean) for op in pooled]
            if allot(room, requested, ones) == ones:
                break
        else:
            each = "; ".join(f"{op.name} requests {request_of(op, True)}" for op in pooled)
            raise ValueError(
                f"one actor of each pool does not fit at the same time: {each}; the session has "
                f"{dict(totals)}; request less with num_cpus= or num_gpus=, or start the session with "
                "more"
            )
        self._cpus_taken = self._cpus_taken or (tasks and not spare)
        most = [
            op.compute.actors[1] if request else op.compute.actors[2]
            for op, request in zip(pooled, requested, strict=True)
        ]
        for op, count in zip(pooled, allot(room, requested, most), strict=True):
            key, holder = self._holder(op, op.steps)
            self._pools[id(op)] = ActorPool(op, key, holder, count, lean)

    def await_pools(self, seconds: float) -> None:
        """Wait until all pools have their smallest number of actors, each for so long. Raises GetTimeoutError."""
        for pool in self._pools.values():
            pool.await_fewest(seconds)

    @property
    def busy(self) -> bool:
        """True while pieces of work are under way."""
        return bool(self._streams or self._single)

    def room(self, operator: Running) -> bool:
        """True if a piece of work can start: if it needs a pool, the pool has a free actor."""
        pool = self._pools.get(id(operator))
        return pool is None or pool.room()

    def _holder(self, operator: Running, what: Any) -> tuple[str, list[Any]]:
        found = self._holders.get(id(what))
        if found is None:
            key = f"{operator.name}-{os.getpid()}-{next(_numbers)}-{os.urandom(6).hex()}"
            found = self._holders[id(what)] = (key, [skate.put(what), what])
        return found[0], found[1][:1]

    def _remote(self, kind: str, operator: Running, **options: Any) -> Any:
        if kind not in self._tasks:
            self._tasks[kind] = skate.remote(getattr(works, kind))
        options = {"name": operator.name, **task_options(operator, self._cpus_taken), **options}
        return self._tasks[kind].options(**options)

    def start(self, work: Work) -> None:
        """Submit a piece of work as a task or to a pool."""
        operator: Any = work.operator
        if work.kind == "chain":
            self._start_chain(work)
            return
        key, holder = self._holder(operator, operator.kernel)
        refs, cuts = _given(work)
        if work.kind == "sample":
            made = self._remote("sample", operator).remote(key, holder, cuts[0], refs[0])
            self._single[made] = (work, None)
        elif work.kind == "split":
            count = operator.partitions
            runs = max(1, min(count, work.bytes // _RUN_BYTES))
            parts = self._remote("split", operator, num_returns=runs + 1).remote(
                key, holder, work.extra, operator.plan, (count, runs), cuts, *refs
            )
            self._single[parts[0]] = (work, parts[1:])
        else:
            task = self._remote("merge", operator, **_STREAMING)
            stream = task.remote(key, holder, work.extra, operator.plan, cuts, *refs)
            self._streams[stream] = _Stream(work, stream)

    def _start_chain(self, work: Work) -> None:
        operator: Any = work.operator
        key, holder = self._holder(operator, operator.steps if work.extra is None else work.extra)
        sources = [each for each in work.bundles if not isinstance(each, Bundle)]
        refs, cuts = _given(work)
        pool = self._pools.get(id(operator))
        if pool is not None and work.extra is None:
            call = pool.submit(work, **_STREAMING)
        else:
            call = self._remote("chain", operator, **_STREAMING).remote
        stream = call(key, holder, work.sequence, sources, cuts, *refs)
        self._streams[stream] = _Stream(work, stream)

    # -- events

    def events(self, readable: Callable[[Work], bool], timeout: float | None = None) -> list[Event] | None:
        """Wait for events: ("block", work, bundle), ("done", work, result) or ("failed", work, error).

        Only streams of work for which `readable` is true are watched; None if there is nothing to wait for.
        Raises the error of an actor that could not be created.
        """
        waiting: list[Any] = [each for each, stream in self._streams.items() if readable(stream.work)]
        waiting += self._single
        waiting += [ref for pool in self._pools.values() for ref in pool.starting]
        if not waiting:
            return None
        ready, _ = skate.wait(waiting, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = skate.wait(waiting, num_returns=len(waiting), timeout=0)
        found: list[Event] = []
        for each in ready:
            if each in self._single:
                found.append(self._ended(each))
            elif each in self._streams:
                found += self._moved(each)
        for pool in self._pools.values():
            pool.look()
        return found

    def _ended(self, ref: Any) -> Event:
        work, parts = self._single.pop(ref)
        try:
            result = skate.get(ref)
        except Exception as error:  # the error of the task, of any type
            return ("failed", work, error)
        if work.kind == "split":
            result = _partitions_of(parts, result)
        return ("done", work, result)

    def _moved(self, key: Any) -> list[Event]:
        """Read a stream: return a block, its end, or no event yet if only half a block has arrived."""
        stream = self._streams[key]
        event = self._one(key, stream)
        while event is None and stream.refs.next_ready():
            event = self._one(key, stream)
        return [] if event is None else [event]

    def _one(self, key: Any, stream: _Stream) -> Event | None:
        work = stream.work
        ref = next(stream.refs, None)
        if ref is None:
            self._drop(key)
            if stream.block is None:
                return ("done", work, None)
            return ("failed", work, _error_of(stream.block, work))
        if stream.block is None:
            stream.block = ref
            return None
        try:
            meta = skate.get(ref)
        except Exception as error:  # the worker died between block and metadata
            self._drop(key)
            return ("failed", work, error)
        block, stream.block = stream.block, None
        work.seconds += meta.seconds
        return ("block", work, Bundle(block, meta.rows, meta.bytes, meta.schema))

    def _drop(self, key: Any) -> None:
        work = self._streams.pop(key).work
        pool = self._pools.get(id(work.operator))
        if pool is not None:
            pool.ended(work)

    # -- shutdown

    def interrupt(self) -> None:
        """End all work in progress, from any thread, and release its waiters."""
        for stream in list(self._streams.values()):
            _cancel(stream.refs)
        for pool in list(self._pools.values()):
            pool.kill()

    def finish(self, operator: Running) -> None:
        """Finish an operator that needs no more work: cancel its pieces of work and release its actors."""
        for key, stream in list(self._streams.items()):
            if stream.work.operator is operator:
                del self._streams[key]
                _cancel(stream.refs)
        for ref, (work, _) in list(self._single.items()):
            if work.operator is operator:
                del self._single[ref]
        pool = self._pools.pop(id(operator), None)
        if pool is not None:
            operator.counters.actors = pool.made
            pool.kill()

    def close(self) -> None:
        """End the work in progress and the pools."""
        for stream in self._streams.values():
            _cancel(stream.refs)
        self._streams.clear()
        self._single.clear()
        for pool in self._pools.values():
            pool.operator.counters.actors = pool.made
            pool.kill()
        self._pools.clear()
        self._holders.clear()


def _partitions_of(runs: Sequence[Any], sizes: Sequence[tuple[int, int]]) -> list[Bundle]:
    """Return the parts of a split by partition, each a range of rows of one of its returned values."""
    found = []
    for run, (low, high) in zip(runs, works.runs_of(len(sizes), len(runs)), strict=True):
        at = 0
        for rows, size in sizes[low:high]:
            found.append(Bundle(run, rows, size, None, (), at if high - low > 1 else None))
            at += rows
    return found


def _given(work: Work) -> tuple[list[Any], list[works.Cut]]:
    """Return refs to the blocks of a piece of work, and the range of rows of each."""
    bundles = [each for each in work.bundles if isinstance(each, Bundle)]
    refs = [bundle.stored() for bundle in bundles]
    return refs, [None if bundle.at is None else (bundle.at, bundle.rows) for bundle in bundles]


def _error_of(ref: Any, work: Work) -> Exception:
    """Return the error that arrived instead of a block."""
    try:
        skate.get(ref)
    except Exception as error:  # the error of the task, of any type
        return error
    return RuntimeError(f"{work} yielded a block and ended without its metadata")


def _cancel(stream: Any) -> None:
    try:
        stream.close()
    except Exception:  # the session or the work may already have ended
        return
