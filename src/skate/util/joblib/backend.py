"""joblib's Parallel on a Pool of actors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    Parallel,
    ParallelBackendBase,
    SequentialBackend,
)

import skate
from skate.util.multiprocessing.actor import Failure
from skate.util.multiprocessing.pool import Pool
from skate.util.multiprocessing.results import AsyncResult

# Arguments of at least this size are stored once for all calls that share them; joblib's own process backends
# share memory from the same size.
_SHARE_BYTES_MIN = 1_000_000


class RayBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """Runs the batches of a Parallel call on actors, on all nodes of the cluster.

    Args:
        nesting_level: depth of Parallel calls around this one.
        inner_max_num_threads: threads that numeric libraries may use in an actor.
        ray_remote_args: options for the actors, such as `{"num_cpus": 1}`.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    def __init__(
        self,
        nesting_level: int | None = None,
        inner_max_num_threads: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(nesting_level=nesting_level, inner_max_num_threads=inner_max_num_threads, **kwargs)
        self._remote_args = ray_remote_args
        self._pool: Pool | None = None
        self._stored: dict[int, tuple[Any, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Batches contain it, to configure nested calls; the pool stays here.
        return RayBackend, (self.nesting_level, self.inner_max_num_threads, self._remote_args)

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of actors for `n_jobs`; -1 means all CPUs of the cluster."""
        if n_jobs == 0:
            raise ValueError("n_jobs=0 has no meaning; use -1 for all CPUs of the cluster")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        if not skate.is_initialized():
            skate.init()
        cpus = int(skate.cluster_resources().get("CPU", 0))
        return max(1, cpus + 1 + n_jobs)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Parallel | None = None,
        prefer: str | None = None,
        require: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> int:
        """Start the actors for one Parallel call, and return how many there are."""
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        if ray_remote_args is not None:
            self._remote_args = ray_remote_args
        self._pool = Pool(count, ray_remote_args=self._actor_options())
        return count

    def submit(
        self, func: Callable[[], list[Any]], callback: Callable[[Any], None] | None = None
    ) -> AsyncResult:
        """Run one batch; `callback` gets its list of results, or its Failure."""
        if self._pool is None:
            raise RuntimeError("joblib submitted a batch before configure(), or after terminate()")
        batch = _Batch(func, [self._store_large(item) for item in getattr(func, "items", [])])
        if callback is None:
            return self._pool.apply_async(batch)
        return self._pool.apply_async(
            batch, callback=callback, error_callback=lambda error: callback(Failure(error))
        )

    # The name in joblib before 1.5.
    apply_async = submit

    def retrieve_result_callback(self, out: Any) -> Any:
        """Return the results of a batch, or raise its error."""
        if isinstance(out, Failure):
            raise out.exception()
        return out

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Stop running calls after a failure; restart if more calls will follow."""
        self.terminate()
        if ensure_ready and self.parallel is not None:
            self.configure(self.parallel.n_jobs, self.parallel)

    def terminate(self) -> None:
        """Stop the actors and drop the arguments stored for them."""
        self._stored.clear()
        if self._pool is not None:
            self._pool.terminate()
            self._pool = None
        self.reset_batch_stats()

    def _actor_options(self) -> dict[str, Any]:
        options = dict(self._remote_args or {})
        if self.inner_max_num_threads is not None:
            threads = {name: str(self.inner_max_num_threads) for name in self.MAX_NUM_THREADS_VARS}
            runtime_env = dict(options.get("runtime_env") or {})
            runtime_env["env_vars"] = {**threads, **(runtime_env.get("env_vars") or {})}
            options["runtime_env"] = runtime_env
        return options

    def _store_large(self, item: tuple[Any, tuple[Any, ...], dict[str, Any]]) -> tuple[Any, ...]:
        func, args, kwargs = item
        return (
            func,
            tuple(map(self._stored_or_self, args)),
            {name: self._stored_or_self(value) for name, value in kwargs.items()},
        )

    def _stored_or_self(self, value: Any) -> Any:
        if _size_bytes(value) < _SHARE_BYTES_MIN:
            return value
        # The value is kept with its ref, so that its id is not reused.
        if id(value) not in self._stored:
            self._stored[id(value)] = value, _Stored(skate.put(value))
        return self._stored[id(value)][1]


class _Stored:
    """Placeholder for an argument that is stored once; resolved where the call runs."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref


class _Batch:
    """joblib's batch of calls, with stored arguments in place of large ones."""

    def __init__(self, batch: Any, items: list[tuple[Any, ...]]) -> None:
        self._batch = batch
        self._items = items

    def __getstate__(self) -> tuple[Any, list[tuple[Any, ...]]]:
        return _emptied(self._batch) if self._items else self._batch, self._items

    def __setstate__(self, state: tuple[Any, list[tuple[Any, ...]]]) -> None:
        self._batch, self._items = state

    def __call__(self) -> Any:
        if self._items:
            batch = _emptied(self._batch)
            batch.items = [
                (func, tuple(map(_value, args)), {name: _value(each) for name, each in kwargs.items()})
                for func, args, kwargs in self._items
            ]
            return batch()
        return self._batch()


def _emptied(batch: Any) -> Any:
    # The batch's own constructor arguments; its items are sent separately.
    nested = (batch._backend, batch._n_jobs)
    return type(batch)([], nested)


def _value(argument: Any) -> Any:
    return skate.get(argument.ref) if isinstance(argument, _Stored) else argument


def _size_bytes(value: Any) -> int:
    size = getattr(value, "nbytes", None)
    return size if isinstance(size, int) else sys.getsizeof(value)
