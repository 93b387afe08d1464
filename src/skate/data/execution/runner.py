"""Runs pieces of work: in this process while there is little of it, in tasks and actors of the session otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import cloudpickle

from skate.data.execution import work as works
from skate.data.execution.bundle import Bundle
from skate.data.execution.operators import ChainRunning, Running, Work

#: Work runs in this process until that has taken so long, and the rest of the plan is given to workers.
LOCAL_SECONDS = 0.05
#: More than this is not read or computed in this process at a time.
LOCAL_BYTES = 64 << 20
_WAIT_SECONDS = 0.1

Event = tuple[str, Work, Any]


class LocalRunner:
    """One piece of work at a time, in this process."""

    def __init__(self) -> None:
        self._active: tuple[Work, Iterator[Any]] | None = None
        self.seconds = 0.0

    @property
    def busy(self) -> bool:
        """True while a piece of work is under way."""
        return self._active is not None

    def start(self, work: Work) -> None:
        """Begin a piece of work; it goes on in `events`."""
        self._active = (work, self._run(work))

    def events(self) -> list[Event]:
        """The next thing that happens: ("block", work, bundle) or ("done", work, result)."""
        assert self._active is not None
        work, flow = self._active
        started = time.perf_counter()
        try:
            found = next(flow, None)
        except BaseException:
            self._active = None
            raise
        finally:
            spent = time.perf_counter() - started
            self.seconds += spent
            work.operator.seconds += spent
        if isinstance(found, Bundle):
            return [("block", work, found)]
        self._active = None
        return [("done", work, None if found is None else found[0])]

    @staticmethod
    def _run(work: Work) -> Iterator[Any]:
        operator: Any = work.operator
        if work.kind == "chain":
            sources = [each.table() if isinstance(each, Bundle) else each for each in work.bundles]
            steps = operator.steps if work.extra is None else work.extra
            for table in works.run_steps(works._inputs(sources), steps, work.sequence):
                yield Bundle.of(table)
        elif work.kind == "sample":
            yield (operator.kernel.sample(work.bundles[0].table()),)
        elif work.kind == "split":
            tables = [bundle.table() for bundle in work.bundles]
            parts = works.parts_of(operator.kernel, tables, work.extra, operator.plan, operator.partitions)
            yield ([Bundle.of(part) for part in parts],)
        else:
            tables = [bundle.table() for bundle in work.bundles]
            for table in works.merged(operator.kernel, tables, work.extra, operator.plan):
                yield Bundle.of(table)

    def close(self) -> None:
        """Drop what is under way."""
        self._active = None


class RemoteRunner:
    """Pieces of work as tasks, and in actors for operators that want a pool."""

    def __init__(self) -> None:
        import skate  # a plan that runs in this process alone needs no session

        self.skate = skate
        self._streams: dict[Any, tuple[Work, float]] = {}
        self._single: dict[Any, Work] = {}
        self._holders: dict[int, tuple[str, list[Any]]] = {}
        self._tasks: dict[str, Any] = {}
        self._pools: dict[int, Any] = {}
        self._blocks: dict[Any, Any] = {}

    @property
    def busy(self) -> bool:
        """True while pieces of work are under way."""
        return bool(self._streams or self._single)

    def room(self, operator: Running) -> bool:
        """Whether a pool has an actor free for one more piece of work; True for tasks."""
        if operator.compute.actors is None:
            return True
        return bool(self._pool(operator).room())

    def _holder(self, operator: Running, what: Any) -> tuple[str, list[Any]]:
        found = self._holders.get(id(what))
        if found is None:
            blob = cloudpickle.dumps(what, protocol=5)
            key = f"{operator.name}-{id(what):x}-{hash(blob):x}-{time.monotonic_ns():x}"
            found = self._holders[id(what)] = (key, [self.skate.put(what), what])
        return found[0], found[1][:1]

    def _remote(self, name: str, **options: Any) -> Any:
        if name not in self._tasks:
            self._tasks[name] = self.skate.remote(getattr(works, name))
        return self._tasks[name].options(**options)

    def start(self, work: Work) -> None:
        """Submit a piece of work."""
        operator: Any = work.operator
        if work.kind == "chain":
            self._start_chain(work)
            return
        options = _options(operator.compute)
        key, holder = self._holder(operator, operator.kernel)
        refs = [bundle.ref() for bundle in work.bundles]
        if work.kind == "sample":
            self._single[self._remote("sample", **options).remote(key, holder, refs[0])] = work
        elif work.kind == "split":
            count = operator.partitions
            made = self._remote("split", num_returns=count + 1, **options).remote(
                key, holder, work.extra, operator.plan, count, *refs
            )
            self._single[made[0]] = work
            self._blocks[made[0]] = made[1:]
        else:
            stream = self._remote("merge", num_returns="streaming", **options).remote(
                key, holder, work.extra, operator.plan, *refs
            )
            self._streams[stream] = (work, time.monotonic())

    def _start_chain(self, work: Work) -> None:
        operator: Any = work.operator
        key, holder = self._holder(operator, operator.steps if work.extra is None else work.extra)
        holder = [*holder, work.sequence]
        sources = [each for each in work.bundles if not isinstance(each, Bundle)]
        refs = [each.ref() for each in work.bundles if isinstance(each, Bundle)]
        if operator.compute.actors is not None and work.extra is None:
            stream = self._pool(operator).submit(work, key, holder, sources, refs)
        else:
            remote = self._remote("chain", num_returns="streaming", **_options(operator.compute))
            stream = remote.remote(key, holder, sources, *refs)
        self._streams[stream] = (work, time.monotonic())

    def _pool(self, operator: Running) -> Any:
        from skate.data.execution.actor_pool import ActorPool  # only plans with pools need it

        found = self._pools.get(id(operator))
        if found is None:
            assert isinstance(operator, ChainRunning)
            found = self._pools[id(operator)] = ActorPool(operator, *self._holder(operator, operator.steps))
        return found

    def events(self) -> list[Event]:
        """Wait until something has happened: ("block", work, bundle), ("done", work, result) or ("failed", work, error)."""
        waiting = [*self._streams, *self._single]
        ready, _ = self.skate.wait(waiting, num_returns=1, timeout=_WAIT_SECONDS)
        found: list[Event] = []
        for each in ready:
            if each in self._single:
                found.append(self._ended(each))
            else:
                found += self._moved(each)
        for pool in self._pools.values():
            pool.look()
        return found

    def _ended(self, ref: Any) -> Event:
        work = self._single.pop(ref)
        refs = self._blocks.pop(ref, ())
        try:
            result = self.skate.get(ref)
        except Exception as error:  # whatever the task ended with
            return ("failed", work, error)
        if work.kind == "split":
            result = [Bundle(part, rows, size, None) for part, (rows, size) in zip(refs, result, strict=True)]
        return ("done", work, result)

    def _moved(self, stream: Any) -> list[Event]:
        """The next block of a stream, or its end."""
        work, _ = self._streams[stream]
        try:
            block = next(stream)
        except StopIteration:
            self._drop(stream)
            return [("done", work, None)]
        try:
            meta = self.skate.get(next(stream))
        except StopIteration:  # what came instead of a block is an error
            self._drop(stream)
            try:
                self.skate.get(block)
            except Exception as error:  # whatever the task ended with
                return [("failed", work, error)]
            raise RuntimeError(f"{work} gave a block and ended without saying how large it is") from None
        except Exception as error:  # the worker died between the two
            self._drop(stream)
            return [("failed", work, error)]
        work.operator.seconds += meta.seconds
        return [("block", work, Bundle(block, meta.rows, meta.bytes, meta.schema))]

    def _drop(self, stream: Any) -> None:
        work, _ = self._streams.pop(stream)
        pool = self._pools.get(id(work.operator))
        if pool is not None:
            pool.ended(work)

    def stop(self, operator: Running) -> None:
        """Nobody wants more of an operator: its pieces of work are cancelled."""
        for stream, (work, _) in list(self._streams.items()):
            if work.operator is operator:
                self._drop(stream)
                if operator.compute.actors is None:
                    self.skate.cancel(stream)
                operator.running -= 1
        for ref, work in list(self._single.items()):
            if work.operator is operator:
                del self._single[ref]
                self._blocks.pop(ref, None)
                operator.running -= 1

    def close(self) -> None:
        """End what is under way, and the pools."""
        for operator in {id(work.operator): work.operator for work, _ in self._streams.values()}.values():
            self.stop(operator)
        self._single.clear()
        self._blocks.clear()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()


def _options(compute: Any) -> dict[str, Any]:
    options = {name: value for name, value in compute.remote_args.items() if value is not None}
    if compute.remote_args_fn is not None:
        options.update(compute.remote_args_fn())
    options.setdefault("max_retries", -1)
    return options
