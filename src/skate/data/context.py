"""Settings of a program's datasets: how large blocks are, what a run may use, what is shown."""

from __future__ import annotations

import contextlib
import copy
import enum
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from skate.data.execution.limits import Limits

_INFINITE = float("inf")
#: The part of the object store that a run's blocks may fill if nothing is said.
_STORE_SHARE = 0.5

_RETRIED_IO_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
    "AWS Error SERVICE_UNAVAILABLE",
)


class ExecutionResources:
    """Amounts of what a run may use: CPUs, GPUs, bytes of the object store, bytes of heap memory; None is "not said"."""

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        for name, value in (
            ("cpu", cpu),
            ("gpu", gpu),
            ("object_store_memory", object_store_memory),
            ("memory", memory),
        ):
            if value is not None and value < 0:
                raise ValueError(f"{name} of ExecutionResources is 0 or more, not {value}")
        self.cpu = cpu
        self.gpu = gpu
        self.object_store_memory = object_store_memory
        self.memory = memory

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Limits: what is not said is not limited."""
        given = (cpu, gpu, object_store_memory, memory)
        return cls(*(_INFINITE if value is None else value for value in given))

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Nothing of anything."""
        return cls(0, 0, 0, 0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """No limit to anything."""
        return cls.for_limits()

    def copy(self) -> ExecutionResources:
        """The same amounts."""
        return ExecutionResources(self.cpu, self.gpu, self.object_store_memory, self.memory)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResources) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        said = {name: value for name, value in vars(self).items() if value is not None}
        return f"ExecutionResources({', '.join(f'{name}={value:g}' for name, value in said.items())})"


class ExecutionOptions:
    """How a run goes: its limits, and whether blocks keep their order (here they always do)."""

    def __init__(
        self,
        resource_limits: ExecutionResources | None = None,
        exclude_resources: ExecutionResources | None = None,
        preserve_order: bool = False,
        actor_locality_enabled: bool = True,
        verbose_progress: bool | None = None,
        label_selector: dict[str, str] | None = None,
    ) -> None:
        self.resource_limits = resource_limits or ExecutionResources.for_limits()
        self.exclude_resources = exclude_resources or ExecutionResources.zero()
        self.locality_with_output: Any = False
        self.preserve_order = preserve_order
        self.actor_locality_enabled = actor_locality_enabled
        self.verbose_progress = bool(verbose_progress)
        self.label_selector = label_selector

    def validate(self) -> None:
        """Raise ValueError for amounts that are both limited and excluded."""
        for name in ("cpu", "gpu", "object_store_memory"):
            limit = getattr(self.resource_limits, name)
            if limit not in (None, _INFINITE) and getattr(self.exclude_resources, name):
                raise ValueError(f"{name} has both a limit and an amount that is excluded; give one of them")

    def __repr__(self) -> str:
        return f"ExecutionOptions(resource_limits={self.resource_limits!r}, preserve_order={self.preserve_order})"


class MixStoppingCondition(enum.Enum):
    """When a mix of datasets ends: with its shortest dataset, or with the longest, the others left out once they have ended."""

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"


#: How nodes are named.
NodeIdStr = str


@dataclass(frozen=True)
class RandomSeedConfig:
    """Where an operation's random numbers begin.

    Attributes: seed (None for other numbers each time), reseed_after_execution and use_timestamp_as_default (taken for
    compatibility; a seed gives the same numbers each time).
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False


@dataclass
class DataContext:
    """Settings that the datasets made from now on take along; `DataContext.get_current()` is the program's."""

    target_max_block_size: int | None = 128 << 20
    target_min_block_size: int = 1 << 20
    read_op_min_num_blocks: int = 200
    min_parallelism: int = 200
    streaming_read_buffer_size: int = 32 << 20
    default_hash_shuffle_parallelism: int = 200
    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    enable_progress_bars: bool = True
    enable_operator_progress_bars: bool = True
    enable_rich_progress_bars: bool = True
    use_ray_tqdm: bool = True
    enable_auto_log_stats: bool = False
    verbose_stats_logs: bool = False
    print_on_execution_start: bool = False
    max_errored_blocks: int = 0
    max_map_retries: int = 0
    retried_map_errors: Any = False
    retried_io_errors: list[str] = field(default_factory=lambda: list(_RETRIED_IO_ERRORS))
    write_file_retry_on_errors: Any = field(default_factory=lambda: tuple(_RETRIED_IO_ERRORS))
    actor_task_retry_on_errors: Any = False
    log_internal_stack_trace: bool = False
    raise_original_map_exception: bool = False
    wait_for_min_actors_s: int = -1
    max_tasks_in_flight_per_actor: int | None = None
    scheduling_strategy: Any = "SPREAD"
    use_polars: bool = False
    use_polars_sort: bool = False
    use_push_based_shuffle: bool = False
    eager_free: bool = False
    enforce_schemas: bool = False
    execution_no_progress_timeout_s: int = 1800
    warn_on_driver_memory_usage_bytes: int = 2 << 30
    enable_tensor_extension_casting: bool = True
    enable_fallback_to_arrow_object_ext_type: bool | None = None
    #: Ours: a partition of a shuffle, sort, join or group-by holds about so many bytes.
    target_partition_size: int = 64 << 20
    #: Ours: little work that asks for no resources runs in this process, without any task.
    run_small_work_in_driver: bool = True

    @staticmethod
    def get_current() -> DataContext:
        """The settings of this program, or of the dataset whose function runs here."""
        with _lock:
            found = _current[0]
            if found is None:
                found = _current[0] = DataContext()
            return found

    @staticmethod
    def _set_current(context: DataContext) -> None:
        with _lock:
            _current[0] = context

    @classmethod
    @contextlib.contextmanager
    def current(cls, context: DataContext) -> Iterator[DataContext]:
        """Have other settings for a while."""
        before = cls.get_current()
        cls._set_current(context)
        try:
            yield context
        finally:
            cls._set_current(before)

    def copy(self) -> DataContext:
        """Settings of their own that begin as these."""
        return copy.deepcopy(self)

    def set_config(self, key: str, value: Any) -> None:
        """Keep a value of the program's own."""
        self.__dict__.setdefault("_own", {})[key] = value

    def get_config(self, key: str, default: Any = None) -> Any:
        """A value kept by `set_config`."""
        return self.__dict__.get("_own", {}).get(key, default)

    def remove_config(self, key: str) -> None:
        """Forget a value kept by `set_config`."""
        self.__dict__.get("_own", {}).pop(key, None)

    @property
    def most_bytes(self) -> int:
        """Bytes that a block should not be larger than."""
        return self.target_max_block_size or 1 << 62

    def limits(self) -> Limits:
        """Bytes and tasks that a run may use, by these settings and by what the session has."""
        import skate  # only runs that use the session come here

        resources = skate.cluster_resources()
        asked = self.execution_options.resource_limits
        excluded = self.execution_options.exclude_resources
        store = resources.get("object_store_memory", 1 << 30) * _STORE_SHARE
        budget = asked.object_store_memory if asked.object_store_memory not in (None, _INFINITE) else store
        cpus = min(
            asked.cpu if asked.cpu is not None else _INFINITE, resources.get("CPU", 1) - (excluded.cpu or 0)
        )
        return Limits(int(budget or store), max(2, 2 * int(max(1, cpus))), max(1, cpus))


DatasetContext = DataContext
_lock = threading.Lock()
_current: list[DataContext | None] = [None]


def available_cpus() -> int:
    """CPUs to plan for: those of the session if one runs, else those of this process."""
    import skate  # circular otherwise: the package's names are looked up here

    if skate.is_initialized():
        return max(1, int(skate.cluster_resources().get("CPU", 1)))
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1
