"""How the function of an operation runs: in tasks or in actors, how many at once, with which resources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Compute:
    """Where an operation runs: `actors` is None for tasks, else (min, max, initial); `tasks` limits concurrent
    tasks.
    """

    actors: tuple[int, int, int] | None = None
    tasks: int | None = None
    in_flight_per_actor: int | None = None
    calls_per_actor: int = 1
    #: True if the calls of an actor may run at the same time, and not only the conversion of their blocks.
    many_threads: bool = False
    remote_args: dict[str, Any] = field(default_factory=dict)
    remote_args_fn: Any = None

    def __post_init__(self) -> None:
        if self.tasks is not None and self.tasks < 1:
            raise ValueError(f"concurrency must be >= 1, got {self.tasks}")

    @property
    def plain(self) -> bool:
        """True if no option requires a worker process."""
        requested = {name for name, value in self.remote_args.items() if value not in (None, {}, 0)}
        return (
            self.actors is None
            and not requested - {"num_cpus", "max_retries"}
            and self.remote_args_fn is None
        )

    def alike(self, other: Compute) -> bool:
        """True if two operations can run in one task."""
        same = self.remote_args == other.remote_args and self.remote_args_fn is other.remote_args_fn
        return same and self.actors is None and other.actors is None and self.tasks == other.tasks


class ComputeStrategy:
    """How a function runs: tasks or a pool of actors."""


class TaskPoolStrategy(ComputeStrategy):
    """Run a function in tasks, at most `size` at once (None: as many as fit)."""

    def __init__(self, size: int | None = None) -> None:
        if size is not None and size < 1:
            raise ValueError(f"`size` must be >= 1, but a TaskPoolStrategy was given {size}")
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskPoolStrategy) and self.size == other.size

    def __hash__(self) -> int:
        return hash(self.size)

    def __repr__(self) -> str:
        return f"TaskPoolStrategy(size={self.size})"


class ActorPoolStrategy(ComputeStrategy):
    """Run a function in a pool of actors: `size` of them, or between `min_size` and `max_size` depending on the load.

    With `max_concurrent_calls_per_actor`, an actor converts several blocks at once; the function itself runs in one
    thread, unless it is async or `enable_true_multi_threading` is True.

    Raises ValueError for sizes below 1, and for `size` together with bounds.
    """

    def __init__(
        self,
        *,
        size: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        initial_size: int | None = None,
        max_tasks_in_flight_per_actor: int | None = None,
        max_concurrent_calls_per_actor: int | None = None,
        enable_true_multi_threading: bool | None = None,
    ) -> None:
        if size is not None:
            if size < 1:
                raise ValueError(f"size must be >= 1, got {size}")
            if min_size is not None or max_size is not None or initial_size is not None:
                raise ValueError(
                    "min_size, max_size, and initial_size cannot be set at the same time as `size`; give either size or bounds"
                )
            min_size = max_size = initial_size = size
        if min_size is not None and min_size < 1:
            raise ValueError(f"min_size must be >= 1, not {min_size}")
        self.min_size = min_size or 1
        self.max_size: float = float("inf") if max_size is None else max_size
        if self.max_size < self.min_size:
            raise ValueError(f"min_size must be <= max_size, but {self.min_size} is more than {max_size}")
        self.initial_size = self.min_size if initial_size is None else initial_size
        if self.initial_size < self.min_size:
            raise ValueError(f"initial_size ({initial_size}) must be >= min_size ({self.min_size})")
        if self.initial_size > self.max_size:
            raise ValueError(f"initial_size ({initial_size}) must be <= max_size ({max_size})")
        for name, value in (
            ("max_tasks_in_flight_per_actor", max_tasks_in_flight_per_actor),
            ("max_concurrent_calls_per_actor", max_concurrent_calls_per_actor),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be >= 1, got: {value}")
        self.max_tasks_in_flight_per_actor = max_tasks_in_flight_per_actor
        self.max_concurrent_calls_per_actor = max_concurrent_calls_per_actor
        self.enable_true_multi_threading = enable_true_multi_threading

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorPoolStrategy) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.min_size, self.max_size, self.initial_size))

    def __repr__(self) -> str:
        return f"ActorPoolStrategy({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


def requested(
    fn: Any,
    compute: ComputeStrategy | None = None,
    concurrency: Any = None,
    remote_args: dict[str, Any] | None = None,
    remote_args_fn: Callable[[], dict[str, Any]] | None = None,
) -> Compute:
    """Decide how an operation runs from its arguments: callable classes in actors, functions in tasks.

    Raises ValueError for contradictory arguments, TypeError for values of a wrong type.
    """
    is_class = isinstance(fn, type)
    if compute is not None and not isinstance(compute, ComputeStrategy):
        raise ValueError(
            f"the compute spec must be either TaskPoolStrategy or ActorPoolStrategy, was: {compute!r}; give an instance of one"
        )
    if concurrency is not None:
        if compute is None:
            compute = _by_concurrency(fn, is_class, concurrency)
        _warn_deprecated()
    name = getattr(fn, "__name__", type(fn).__name__)
    if isinstance(compute, TaskPoolStrategy) and is_class:
        raise ValueError(
            f"{name} is a class, which runs in actors: with compute={compute!r}, Data can't schedule callable classes "
            f"with the task pool strategy; use an ActorPoolStrategy or leave compute out"
        )
    if isinstance(compute, ActorPoolStrategy) and not is_class:
        raise ValueError(
            f"{name} is a function, which runs in tasks: with compute={compute!r}, Data can't schedule regular functions "
            f"with the actor pool strategy; give a TaskPoolStrategy or a class"
        )
    requested = {key: value for key, value in (remote_args or {}).items() if value is not None}
    for key in ("num_cpus", "num_gpus", "memory"):
        if isinstance(requested.get(key), (int, float)) and requested[key] < 0:
            raise ValueError(f"The quantity of resource {key} cannot be negative, got {requested[key]}")
    if is_class and compute is None:
        compute = ActorPoolStrategy()
    if not isinstance(compute, ActorPoolStrategy):
        size = compute.size if isinstance(compute, TaskPoolStrategy) else None
        return Compute(tasks=size, remote_args=requested, remote_args_fn=remote_args_fn)
    most = UNBOUNDED if compute.max_size == float("inf") else int(compute.max_size)
    return Compute(
        actors=(compute.min_size, most, compute.initial_size),
        in_flight_per_actor=compute.max_tasks_in_flight_per_actor,
        calls_per_actor=compute.max_concurrent_calls_per_actor or 1,
        many_threads=bool(compute.enable_true_multi_threading),
        remote_args=requested,
        remote_args_fn=remote_args_fn,
    )


#: The size of a pool without an upper bound: as many actors as the session has room for.
UNBOUNDED = 1 << 30


def _by_concurrency(fn: Any, is_class: bool, concurrency: Any) -> ComputeStrategy:
    if isinstance(concurrency, int) and not isinstance(concurrency, bool):
        if concurrency < 1:
            raise ValueError(
                f"`concurrency` is the size of a pool, and `size` must be >= 1, got {concurrency}"
            )
        return ActorPoolStrategy(size=concurrency) if is_class else TaskPoolStrategy(concurrency)
    numbers = isinstance(concurrency, tuple) and all(isinstance(each, int) for each in concurrency)
    if not numbers or len(concurrency) not in (2, 3):
        raise ValueError(
            f"``concurrency`` is expected to be set as {'' if numbers else 'an integer or '}a tuple of integers"
            f", but got: {concurrency}; a tuple is (min, max) or (min, max, initial)"
        )
    if not is_class:
        raise ValueError(
            f"``concurrency`` is set as a tuple of integers, but ``fn`` is not a callable class: {fn!r}; use one number"
        )
    first = concurrency[2] if len(concurrency) == 3 else None
    return ActorPoolStrategy(min_size=concurrency[0], max_size=concurrency[1], initial_size=first)


def _warn_deprecated() -> None:
    from skate.util.debug import log_once  # only the deprecated name needs it

    if log_once("skate.data.concurrency"):
        import logging  # imported only if used

        logging.getLogger("skate.data").warning(
            "concurrency= is deprecated; use compute=TaskPoolStrategy(n) or compute=ActorPoolStrategy(size=n)"
        )
