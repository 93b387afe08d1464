"""Settings for datasets: block sizes, resource limits, displayed output."""

from __future__ import annotations

import contextlib
import copy
import enum
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from skate import procfs
from skate.data.checkpoint_config import config_of
from skate.data.defaults import *  # noqa: F403  # programs import them from here
from skate.data.defaults import RETRIED_IO_ERRORS
from skate.data.execution.limits import Limits
from skate.data.part_settings import (
    AutoscalingConfig,
    DeltaConfig,
    IcebergConfig,
    IssueDetectorsConfiguration,
    LanceConfig,
    ShuffleStrategy,
)
from skate.data.resources import INFINITE, ExecutionOptions, ExecutionResources

__all__ = [
    "AutoscalingConfig",
    "DataContext",
    "DatasetContext",
    "DeltaConfig",
    "ExecutionOptions",
    "ExecutionResources",
    "IcebergConfig",
    "IssueDetectorsConfiguration",
    "LanceConfig",
    "MixStoppingCondition",
    "NodeIdStr",
    "RandomSeedConfig",
    "ShuffleStrategy",
    "available_cpus",
]

#: The default share of the object store that a run's blocks may fill.
_STORE_SHARE = 0.5


class MixStoppingCondition(enum.Enum):
    """When a mix of datasets ends: with its shortest dataset, or with its longest, without those that have ended."""

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"


#: How nodes are named.
NodeIdStr = str


def _tensor_format() -> Any:
    from skate.data.extensions.arrow_types import FixedShapeTensorFormat  # imports this module's neighbours

    return FixedShapeTensorFormat.ARROW_NATIVE


@dataclass(frozen=True)
class RandomSeedConfig:
    """The seed of an operation's random numbers.

    Attributes: seed (None for a different one each time), reseed_after_execution (different numbers in each
    run, derived from the seed) and use_timestamp_as_default (accepted for compatibility). Raises ValueError for
    a seed that is not an integer.
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"Seed must be an integer or None, not {self.seed!r}")

    @classmethod
    def create_seed_config(
        cls, seed: int | RandomSeedConfig | None, *, use_timestamp_as_default: bool = False
    ) -> RandomSeedConfig:
        """Convert a user's seed: an integer gives the same numbers in each run. Raises ValueError for other types."""
        if isinstance(seed, RandomSeedConfig):
            return cls(seed.seed, seed.reseed_after_execution, use_timestamp_as_default)
        if seed is not None and not isinstance(seed, int):
            raise ValueError(f"Invalid seed type: {type(seed)}; use an integer, a RandomSeedConfig or None")
        return cls(seed, False, use_timestamp_as_default)

    def get_seed_tuple(self, *, data_context: DataContext) -> tuple[int, ...] | None:
        """The seed as integers; None without a seed."""
        return None if self.seed is None else (self.seed,)


#: The types of values that copies of settings share.
_ATOMS = (bool, int, float, str, type(None))


def _copied(settings: Any, memo: dict[int, Any]) -> Any:
    """Copy an object of settings like `copy.deepcopy`, which takes long over hundreds of numbers and texts."""
    made = object.__new__(type(settings))
    for name, value in vars(settings).items():
        kind = type(value)
        if kind in _ATOMS or isinstance(value, enum.Enum):
            made.__dict__[name] = value
        else:
            of_settings = kind.__module__.startswith("skate.data.") and hasattr(value, "__dict__")
            made.__dict__[name] = _copied(value, memo) if of_settings else copy.deepcopy(value, memo)
    return made


@dataclass
class DataContext:
    """Settings for datasets created from now on; `DataContext.get_current()` returns the program's."""

    target_max_block_size: int | None = 128 << 20
    target_min_block_size: int = 1 << 20
    read_op_min_num_blocks: int = 200
    min_parallelism: int = 200
    streaming_read_buffer_size: int = 32 << 20
    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    # Output and statistics.
    enable_progress_bars: bool = True
    enable_operator_progress_bars: bool = True
    enable_progress_bar_name_truncation: bool = True
    enable_rich_progress_bars: bool = False
    use_ray_tqdm: bool = True
    enable_auto_log_stats: bool = False
    verbose_stats_logs: bool = False
    enable_stats_summary_collection: bool = False
    print_on_execution_start: bool = False
    log_internal_stack_trace: bool = False
    raise_original_map_exception: bool = False
    dataset_logger_id: str | None = None
    warn_on_driver_memory_usage_bytes: int = 2 << 30
    # Failures.
    max_errored_blocks: int = 0
    max_map_retries: int = 0
    retried_map_errors: Any = False
    retried_io_errors: list[str] = field(default_factory=lambda: list(RETRIED_IO_ERRORS))
    write_file_retry_on_errors: Any = field(default_factory=lambda: tuple(RETRIED_IO_ERRORS[:4]))
    actor_task_retry_on_errors: Any = False
    actor_init_retry_on_errors: bool = False
    actor_init_max_retries: int = 3
    max_consecutive_actor_init_deaths: int = 0
    execution_no_progress_timeout_s: float = 1800
    # Scheduling.
    wait_for_min_actors_s: int = -1
    max_tasks_in_flight_per_actor: int | None = None
    autoscaling_config: AutoscalingConfig = field(default_factory=AutoscalingConfig)
    scheduling_strategy: Any = "SPREAD"
    scheduling_strategy_large_args: Any = "DEFAULT"
    large_args_threshold: int = 50 << 20
    isolate_read_workers: bool = False
    # Values and tables.
    enforce_schemas: bool = False
    enable_tensor_extension_casting: bool = True
    enable_fallback_to_arrow_object_ext_type: bool | None = None
    enable_arrow_backed_pandas_conversion: bool = True
    batch_to_block_arrow_format: bool = True
    pandas_block_ignore_metadata: bool = False
    enable_pandas_block: bool = True
    decoding_size_estimation: bool = True
    s3_try_create_dir: bool = False
    lance_config: LanceConfig = field(default_factory=LanceConfig)
    iceberg_config: IcebergConfig = field(default_factory=IcebergConfig)
    delta_config: DeltaConfig = field(default_factory=DeltaConfig)
    # Accepted so that programs that set them run. They configure parts that Skate implements differently.
    use_datasource_v2: bool = True
    use_arrow_tensor_v2: bool = True
    arrow_fixed_shape_tensor_format: Any = field(default_factory=_tensor_format)
    use_polars: bool = False
    use_polars_sort: bool = False
    use_legacy_dataset_ids: bool = False
    use_push_based_shuffle: bool = False
    pipeline_push_based_shuffle_reduce_tasks: bool = True
    _shuffle_strategy: ShuffleStrategy = ShuffleStrategy.SHUFFLE_V2
    default_hash_shuffle_parallelism: int = 200
    shuffle_compression: str = "zstd"
    shuffle_input_batch_bytes: int = 1 << 30
    use_disk_based_hash_shuffle: bool = False
    hash_shuffle_reduce_batch_size: int = 16
    hash_shuffle_reduce_get_timeout_s: float = 1800.0
    max_hash_shuffle_aggregators: int | None = None
    min_hash_shuffle_aggregator_wait_time_in_s: int = 300
    hash_shuffle_aggregator_health_warning_interval_s: int = 30
    max_hash_shuffle_finalization_batch_size: int | None = None
    join_operator_actor_num_cpus_override: float | None = None
    hash_shuffle_operator_actor_num_cpus_override: float | None = None
    hash_aggregate_operator_actor_num_cpus_override: float | None = None
    gpu_shuffle_num_actors: int | None = None
    gpu_shuffle_rmm_pool_size: int | str | None = None
    gpu_shuffle_spill_memory_limit: int | str | None = "auto"
    gpu_shuffle_setup_timeout_s: float = 120.0
    eager_free: bool = False
    actor_prefetcher_enabled: bool = False
    op_resource_reservation_enabled: bool = True
    op_resource_reservation_ratio: float = 0.5
    output_backpressure_guard_release_interval_s: float | None = None
    object_store_reservation_overshoot_ratio: float | None = None
    object_store_memory_pressure_fraction: float | None = None
    override_object_store_memory_limit_fraction: float | None = None
    downstream_capacity_backpressure_ratio: float | None = 2.0
    enable_dynamic_output_queue_size_backpressure: bool = False
    enable_lineage_reconstruction_resource_accounting: bool = True
    default_map_logical_memory_enabled: bool = False
    memory_usage_poll_interval_s: float | None = 1
    enable_get_object_locations_for_metrics: bool = False
    enable_per_node_metrics: bool = False
    accurate_map_phase_timing: bool = False
    per_stage_map_timing: bool = False
    trace_allocations: bool = False
    issue_detectors_config: IssueDetectorsConfiguration = field(default_factory=IssueDetectorsConfiguration)
    custom_execution_callback_classes: list[Any] = field(default_factory=list)
    _enable_ray_data_reconstruction: bool | None = None
    #: See `checkpoint_config`.
    _checkpoint_config: Any = None
    #: Skate's own: the approximate size in bytes of a partition of a shuffle, sort, join or group-by.
    target_partition_size: int = 64 << 20
    #: Skate's own: small work without resource requests runs in this process, without tasks.
    run_small_work_in_driver: bool = True
    #: Skate's own: scans, filters, groups, sorts and joins run in Polars, if it is installed and gives the same.
    use_relational_engine: bool = True

    @staticmethod
    def get_current() -> DataContext:
        """Return the settings of this program, or of the dataset whose function runs here."""
        with _lock:
            found = _current[0]
            if found is None:
                found = _current[0] = DataContext()
            return found

    @staticmethod
    def _set_current(context: DataContext) -> None:
        with _lock:
            _current[0] = context

    @staticmethod
    @contextlib.contextmanager
    def current(context: DataContext) -> Iterator[DataContext]:
        """Use other settings inside a `with` block."""
        before = DataContext.get_current()
        DataContext._set_current(context)
        try:
            yield context
        finally:
            DataContext._set_current(before)

    def copy(self) -> DataContext:
        """Return an independent copy of these settings."""
        made: DataContext = _copied(self, {})
        return made

    def set_config(self, key: str, value: Any) -> None:
        """Store a value for the program's own use."""
        self.__dict__.setdefault("_own", {})[key] = value

    def get_config(self, key: str, default: Any = None) -> Any:
        """Return a value stored by `set_config`."""
        return self.__dict__.get("_own", {}).get(key, default)

    def remove_config(self, key: str) -> None:
        """Remove a value stored by `set_config`."""
        self.__dict__.get("_own", {}).pop(key, None)

    def set_dataset_logger_id(self, dataset_id: str) -> None:
        """Accepted for compatibility: datasets log where the program logs."""
        self.dataset_logger_id = dataset_id

    @property
    def shuffle_strategy(self) -> ShuffleStrategy:
        """Accepted for compatibility: there is only one way to shuffle."""
        return self._shuffle_strategy

    @shuffle_strategy.setter
    def shuffle_strategy(self, value: ShuffleStrategy | str) -> None:
        self._shuffle_strategy = ShuffleStrategy(value)

    @property
    def hash_shuffle_compression(self) -> str:
        """The older name of `shuffle_compression`."""
        return self.shuffle_compression

    @hash_shuffle_compression.setter
    def hash_shuffle_compression(self, value: str) -> None:
        self.shuffle_compression = value

    @property
    def use_external_hash_shuffle(self) -> bool:
        """The older name of `use_disk_based_hash_shuffle`."""
        return self.use_disk_based_hash_shuffle

    @use_external_hash_shuffle.setter
    def use_external_hash_shuffle(self, value: bool) -> None:
        self.use_disk_based_hash_shuffle = value

    @property
    def enable_ray_data_reconstruction(self) -> bool | None:
        """Accepted for compatibility: the session recreates lost values."""
        return self._enable_ray_data_reconstruction

    @property
    def execution_callback_classes(self) -> list[Any]:
        """Accepted for compatibility: the classes of `custom_execution_callback_classes`."""
        return list(self.custom_execution_callback_classes)

    @property
    def checkpoint_config(self) -> Any:
        """Checkpointing of written rows, which later runs skip: a `skate.data.checkpoint.CheckpointConfig`, or None."""
        return self._checkpoint_config

    @checkpoint_config.setter
    def checkpoint_config(self, value: Any) -> None:
        self._checkpoint_config = config_of(value)

    @property
    def most_bytes(self) -> int:
        """The size in bytes that a block should not exceed."""
        return self.target_max_block_size or 1 << 62

    def limits(self) -> Limits:
        """Return the bytes and tasks that a run may use, from these settings and the resources of the session."""
        import skate  # only runs that use the session need it

        resources = skate.cluster_resources()
        limits = self.execution_options.resource_limits
        store = resources.get("object_store_memory", 1 << 30) * _STORE_SHARE
        budget = limits.object_store_memory if limits.object_store_memory not in (0, INFINITE) else store
        cpus = min(limits.cpu, resources.get("CPU", 1) - self.execution_options._unavailable_cpus)
        return Limits(int(budget or store), max(2, 2 * int(max(1, cpus))), max(1, cpus))


DatasetContext = DataContext
_lock = threading.Lock()
_current: list[DataContext | None] = [None]


def available_cpus() -> int:
    """Return the number of CPUs to plan for: the session's if one runs, else this process's."""
    import skate  # avoids a cycle: the package's names are looked up here

    if skate.is_initialized():
        return max(1, int(skate.cluster_resources().get("CPU", 1)))
    return procfs.cpu_count()
