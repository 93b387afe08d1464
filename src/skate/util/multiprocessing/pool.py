"""A process pool with the interface of `multiprocessing.Pool`, whose processes are actors."""

from __future__ import annotations

import itertools
import logging
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, NoReturn

import skate
from skate.util.multiprocessing.actor import Call, PoolActor
from skate.util.multiprocessing.dispatch import Chunk, Dispatcher, SharedFunction
from skate.util.multiprocessing.results import AsyncResult, IMapIterator

logger = logging.getLogger(__name__)

_RUN, _CLOSE, _TERMINATE = "RUN", "CLOSE", "TERMINATE"
# As in multiprocessing: with four chunks per process, uneven ones still even out.
_CHUNKS_PER_PROCESS = 4

#: The environment variable that names the cluster to join.
RAY_ADDRESS_ENV = "RAY_ADDRESS"

_Function = Callable[..., Any]
_Callback = Callable[[Any], Any]


class Pool:
    """Processes that run calls in parallel, on all nodes of the cluster.

    Starts a local node with `init()` if the program has not. As a context manager it terminates at the end of
    the block.

    Args:
        processes: number of actors; by default the CPUs of the cluster.
        initializer: runs in each actor before its first call.
        initargs: its arguments.
        maxtasksperchild: chunks that an actor runs before it is replaced; None means no limit.
        context: accepted for compatibility and ignored.
        ray_address: address of the cluster to join, as for `init`.
        ray_remote_args: options for the actors, such as `{"num_gpus": 1}`; by default they hold no resources.

    Raises:
        ValueError: `processes` is below 1 or more than the cluster has CPUs, or `maxtasksperchild` below 1.
        ActorDiedError: the initializer raised.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: _Function | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        self._state = _TERMINATE
        _check_arguments(processes, initializer, maxtasksperchild)
        if context is not None:
            logger.warning("Pool ignores context=%r: its processes are actors", context)
        self._processes = _size(processes, ray_address)
        remote_class = skate.remote(num_cpus=0)(PoolActor).options(**(ray_remote_args or {}))
        arguments = (initializer, tuple(initargs or ()))
        self._dispatcher = Dispatcher(
            lambda: remote_class.remote(*arguments), self._processes, maxtasksperchild
        )
        self._state = _RUN
        self._keys = itertools.count()
        self._iterators: weakref.WeakSet[IMapIterator] = weakref.WeakSet()
        try:
            self._dispatcher.wait_started()
        except BaseException:
            self.terminate()
            raise

    def __repr__(self) -> str:
        return f"<Pool state={self._state} processes={self._processes}>"

    def __enter__(self) -> Pool:
        self._check_running()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.terminate()

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError("a Pool cannot be pickled or sent to another process; create one there")

    def __del__(self) -> None:
        # When the interpreter exits, the node ends the actors, and the daemon thread ends with the process.
        if self._state == _RUN:
            self._state = _TERMINATE
            self._dispatcher.end_soon()

    def apply(
        self, func: _Function, args: Iterable[Any] | None = None, kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func(*args, **kwargs)` in the pool and return its result."""
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: _Function,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: _Callback | None = None,
        error_callback: _Callback | None = None,
    ) -> AsyncResult:
        """Start `func(*args, **kwargs)` in the pool.

        Args:
            callback: called with the result, on the pool's thread: it should return quickly.
            error_callback: called with the exception instead, if one was raised.
        """
        self._check_running()
        _check_callable(func)
        result = AsyncResult(self, 1, True, callback, error_callback)
        call = (tuple(args or ()), dict(kwargs or {}))
        self._dispatcher.submit(Chunk(func, [call], lambda outcomes: result.take_chunk(0, outcomes)))
        return result

    def map(self, func: _Function, iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """Run `func` on every item and return the list of results.

        Args:
            chunksize: items that one actor takes at a time; by default a quarter of its share.
        """
        values: list[Any] = self.map_async(func, iterable, chunksize).get()
        return values

    def map_async(
        self,
        func: _Function,
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: _Callback | None = None,
        error_callback: _Callback | None = None,
    ) -> AsyncResult:
        """Start `func` on every item; the result is the list of results.

        Args:
            chunksize: items that one actor takes at a time; by default a quarter of its share.
            callback: called with the list once all calls have succeeded.
            error_callback: called with the first exception in order once all calls have ended.
        """
        calls: Iterable[Call] = (((item,), {}) for item in iterable)
        return self._map_async(func, calls, chunksize, callback, error_callback)

    def starmap(
        self, func: _Function, iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[Any]:
        """Run `func(*item)` for every item and return the list of results."""
        values: list[Any] = self.starmap_async(func, iterable, chunksize=chunksize).get()
        return values

    def starmap_async(
        self,
        func: _Function,
        iterable: Iterable[Iterable[Any]],
        callback: _Callback | None = None,
        error_callback: _Callback | None = None,
        chunksize: int | None = None,
    ) -> AsyncResult:
        """Start `func(*item)` for every item; arguments as for `map_async`."""
        calls: Iterable[Call] = ((tuple(item), {}) for item in iterable)
        return self._map_async(func, calls, chunksize, callback, error_callback)

    def imap(self, func: _Function, iterable: Iterable[Any], chunksize: int | None = 1) -> IMapIterator:
        """Run `func` on every item and iterate over the results in order.

        Items are taken from the iterable only as fast as results are used, one chunk per actor ahead.
        """
        return self._imap(func, iterable, chunksize, ordered=True)

    def imap_unordered(
        self, func: _Function, iterable: Iterable[Any], chunksize: int | None = 1
    ) -> IMapIterator:
        """Run `func` on every item and iterate over the results as they finish."""
        return self._imap(func, iterable, chunksize, ordered=False)

    def close(self) -> None:
        """Accept no more work; the actors end once all submitted work is done.

        Items that an `imap` has not yet taken from its iterable are submitted now.
        """
        if self._state == _RUN:
            for iterator in list(self._iterators):
                iterator.submit_rest()
            self._state = _CLOSE
            self._dispatcher.end_when_idle()

    def terminate(self) -> None:
        """End the actors at once; calls that have not finished fail with an ActorDiedError."""
        if self._state != _TERMINATE:
            self._state = _TERMINATE
            self._dispatcher.end()
            self._dispatcher.join()

    def join(self) -> None:
        """Wait until all work is done and the actors have ended.

        Raises:
            ValueError: neither `close()` nor `terminate()` has been called.
        """
        if self._state == _RUN:
            raise ValueError("the Pool is still running; call close() or terminate() before join()")
        self._dispatcher.join()

    def _map_async(
        self,
        func: _Function,
        calls: Iterable[Call],
        chunksize: int | None,
        callback: _Callback | None,
        error_callback: _Callback | None,
    ) -> AsyncResult:
        self._check_running()
        _check_callable(func)
        listed = list(calls)
        size = self._chunksize(chunksize, len(listed))
        chunks = list(_split(listed, size))
        result = AsyncResult(self, len(chunks), False, callback, error_callback)
        if not chunks:
            self._dispatcher.later(result.finish)
            return result
        function = func if len(chunks) == 1 else self._share(func)
        for index, chunk in enumerate(chunks):
            self._dispatcher.submit(Chunk(function, chunk, _taker(result, index)))
        return result

    def _imap(
        self, func: _Function, iterable: Iterable[Any], chunksize: int | None, ordered: bool
    ) -> IMapIterator:
        self._check_running()
        _check_callable(func)
        count = len(iterable) if isinstance(iterable, Sized) else 1
        size = self._chunksize(chunksize, count)
        function = self._share(func)

        def submit(items: list[Any], done: Callable[[list[Any]], None]) -> None:
            self._dispatcher.submit(Chunk(function, [((item,), {}) for item in items], done))

        iterator = IMapIterator(submit, iterable, size, self._processes, ordered)
        self._iterators.add(iterator)
        return iterator

    def _share(self, func: _Function) -> SharedFunction:
        return SharedFunction(next(self._keys), skate.put(func))

    def _chunksize(self, requested: int | None, count: int) -> int:
        if requested is None:
            return max(1, -(-count // (self._processes * _CHUNKS_PER_PROCESS)))
        if requested < 1:
            raise ValueError(f"chunksize must be 1 or more, not {requested}")
        return requested

    def _check_running(self) -> None:
        if self._state != _RUN:
            raise ValueError(f"Pool not running: {self!r} accepts no more work; create a new one")


def _taker(result: AsyncResult, index: int) -> Callable[[list[Any]], None]:
    return lambda outcomes: result.take_chunk(index, outcomes)


def _split(calls: list[Call], size: int) -> Iterator[list[Call]]:
    for start in range(0, len(calls), size):
        yield calls[start : start + size]


def _check_callable(func: Any) -> None:
    if not callable(func):
        raise TypeError(f"func must be callable, not {func!r}")


def _check_arguments(processes: int | None, initializer: Any, maxtasksperchild: int | None) -> None:
    if processes is not None:
        if isinstance(processes, bool) or not isinstance(processes, int):
            raise TypeError(f"processes must be an int or None, not {processes!r}")
        if processes < 1:
            raise ValueError(f"processes must be 1 or more, not {processes}")
    if initializer is not None and not callable(initializer):
        raise TypeError(f"initializer must be callable, not {initializer!r}")
    if maxtasksperchild is not None and maxtasksperchild < 1:
        raise ValueError(f"maxtasksperchild must be 1 or more, or None, not {maxtasksperchild}")


def _size(processes: int | None, address: str | None) -> int:
    if not skate.is_initialized():
        joins = address or os.environ.get("RAY_ADDRESS")
        if joins is None or joins == "local":
            skate.init(address=address, num_cpus=processes)
        else:
            skate.init(address=address)
    cpus = int(skate.cluster_resources().get("CPU", 0))
    if processes is None:
        processes = max(1, cpus)
    if processes > cpus:
        raise ValueError(
            f"Pool(processes={processes}) requests more than the {cpus} CPUs of this cluster; request fewer, "
            f"or call init(num_cpus={processes}) first"
        )
    return processes
