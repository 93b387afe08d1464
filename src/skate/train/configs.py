"""Configuration of a run: number of workers, storage, checkpoints to keep, failure handling."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skate.air import config as air_config
from skate.air.config import SyncConfig as SyncConfig

_DEPRECATED = "DEPRECATED"
_LEVELS = ("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING")
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def _refuse_deprecated(config: Any, names: Sequence[str], subject: str, instead: Mapping[str, str]) -> None:
    for name in names:
        if getattr(config, name) != _DEPRECATED:
            hint = instead.get(name, "leave it out")
            raise DeprecationWarning(f"`{subject.format(name)}` is deprecated: {hint}")


@dataclass
class ScalingConfig(air_config.ScalingConfig):
    """The number of workers of a run, and their resources.

    Args:
        trainer_resources: rejected; the controller runs in the calling process.
        num_workers: the number, or (min, max) for a run that grows and shrinks with the cluster, or 0 to run
            the training function in the calling process.
        use_gpu: one GPU per worker, unless `resources_per_worker` sets another amount.
        resources_per_worker: such as {"CPU": 2, "GPU": 1}; by default 1 CPU, or 1 GPU with `use_gpu`.
        placement_strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        accelerator_type: the required kind of accelerator, such as "H100".
        label_selector: required node labels, one mapping for all workers or one for each.
        use_tpu: one TPU per worker, unless `resources_per_worker` sets another amount; for one worker.
        topology: the topology of a TPU slice for several workers; `fit` rejects it.
        elastic_resize_monitor_interval_s: the interval in seconds in which an elastic run looks for free resources.

    Raises:
        ValueError: values contradict each other or are out of range.
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 60.0

    def __post_init__(self) -> None:
        if self.trainer_resources is not None:
            raise DeprecationWarning(
                "`ray.train.ScalingConfig(trainer_resources)` is deprecated: the controller takes no resources; "
                "set the needs of a worker with resources_per_worker"
            )
        self._check_workers()
        if self.placement_strategy not in _STRATEGIES:
            raise ValueError(
                f"placement_strategy must be one of {', '.join(_STRATEGIES)}, got {self.placement_strategy!r}"
            )
        given = self.resources_per_worker
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"resources_per_worker must be a dict such as {{'CPU': 2}}, got {given!r}")
        self._check_tpus()
        self._check_gpus(given or {})
        if isinstance(self.label_selector, list) and len(self.label_selector) != self.max_workers:
            raise ValueError(
                "If `label_selector` is a list, it must be the same length as `max_workers` (or `num_workers`, if that is one "
                f"number): it has {len(self.label_selector)} entries for {self.max_workers} workers; pass one "
                "dict for all, or one for each"
            )

    def _check_workers(self) -> None:
        workers = self.num_workers
        pair = isinstance(workers, tuple) and len(workers) == 2 and all(_is_count(each) for each in workers)
        if not pair and not _is_count(workers):
            raise ValueError(
                "ScalingConfig(num_workers) must be an int or a tuple of two ints, (fewest, most): got "
                f"{workers!r}"
            )
        prefix = f"Invalid ScalingConfig(num_workers={workers!r})"
        if self.min_workers < 0:
            raise ValueError(f"{prefix}: Number of workers cannot be negative.")
        if self.min_workers > self.max_workers:
            raise ValueError(
                f"{prefix}: min_workers={self.min_workers} must be <= max_workers={self.max_workers}; "
                "a pair is (fewest, most)"
            )
        if self.elastic_resize_monitor_interval_s < 0:
            raise ValueError(
                "ScalingConfig(elastic_resize_monitor_interval_s) must be non-negative, got "
                f"{self.elastic_resize_monitor_interval_s}"
            )

    def _check_tpus(self) -> None:
        if self.use_gpu and self.use_tpu:
            raise ValueError(
                "Cannot specify both `use_gpu=True` and `use_tpu=True`: a worker has one or the other"
            )
        if not self.use_tpu:
            if self.num_tpus_per_worker > 0:
                raise ValueError(
                    "`use_tpu` is False but `TPU` was found in `resources_per_worker`: set use_tpu=True, or leave TPU out"
                )
            return
        if not self.num_tpus_per_worker:
            raise ValueError(
                "`use_tpu` is True but `TPU` is set to 0 in `resources_per_worker`; set the number, or set use_tpu=False"
            )
        if self.max_workers > 1:
            for name in ("topology", "accelerator_type"):
                if not getattr(self, name):
                    raise ValueError(
                        f"`{name}` must be specified in ScalingConfig when `use_tpu=True` and `num_workers` > 1"
                    )
            if self.label_selector:
                raise ValueError(
                    "Cannot set `label_selector` when `use_tpu=True`: the slice determines the nodes"
                )
        if self.topology and self.accelerator_type:
            self._check_slice(self.topology, self.accelerator_type)

    def _check_slice(self, topology: str, accelerator_type: str) -> None:
        from skate.util.tpu import get_tpu_worker_resources  # only for runs on TPUs

        try:
            in_slice, resources = get_tpu_worker_resources(
                topology=topology,
                accelerator_type=accelerator_type,
                resources_per_worker=self.resources_per_worker,
                num_slices=1,
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"Could not parse TPU topology details for type={accelerator_type}, topology={topology}. "
                f"Error: {error}"
            ) from error
        for name, number in (("num_workers", self.max_workers), ("min_workers", self.min_workers)):
            if number % in_slice:
                raise ValueError(
                    f"The configured `{name}` ({number}) must be a multiple of {in_slice} for the specified topology "
                    f"({topology}): a slice holds {in_slice} workers, and a run takes whole slices"
                )
        if self.resources_per_worker is None:
            self.resources_per_worker = resources

    @property
    def elasticity_enabled(self) -> bool:
        """True if the number of workers may change during the run."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """The minimum number of workers of the run."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """The maximum number of workers of the run."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def _resources_per_worker_not_none(self) -> dict[str, float]:
        given = self.resources_per_worker
        found: dict[str, float] = {name: amount for name, amount in (given or {}).items() if amount}
        if self.use_gpu:
            found.setdefault("GPU", 1)
        elif given is None:
            found = {"TPU": 1} if self.use_tpu else {"CPU": 1}
        if self.accelerator_type:
            found.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return found

    @property
    def _most_workers(self) -> int:
        return self.max_workers

    @property
    def _trainer_resources_not_none(self) -> dict[str, float]:
        return {}

    @property
    def num_tpus_per_worker(self) -> float:
        """The number of TPUs per worker."""
        return self._resources_per_worker_not_none.get("TPU", 0)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass
class CheckpointConfig:
    """Which checkpoints of a run are kept.

    Args:
        num_to_keep: the number to keep; None keeps all. The last one is always kept, to resume from.
        checkpoint_score_attribute: the reported metric to rank by, nested ones such as "eval/loss"; None ranks by age.
        checkpoint_score_order: "max" or "min": which end of the metric is best.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: Any = _DEPRECATED
    checkpoint_at_end: Any = _DEPRECATED

    def __post_init__(self) -> None:
        instead = dict.fromkeys(
            ("checkpoint_frequency", "checkpoint_at_end"),
            "report checkpoints from the training function instead",
        )
        _refuse_deprecated(self, tuple(instead), "{}", instead)
        if self.num_to_keep is not None and (not _is_count(self.num_to_keep) or self.num_to_keep < 1):
            raise ValueError(
                f"Received invalid num_to_keep: {self.num_to_keep!r}. Must be None or an integer >= "
                f"1; None keeps all checkpoints"
            )
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f"Received invalid checkpoint_score_order: {self.checkpoint_score_order}. Must be 'max' or "
                "'min', depending on which end of the metric is best"
            )


@dataclass
class FailureConfig(air_config.FailureConfig):
    """How often a run may fail and restart.

    Args:
        max_failures: the number of worker failures after which the run restarts; -1 for no limit.
        controller_failure_limit: the same for failures to start the workers.
        max_preemption_failures: the same for workers lost with their node; `PreemptionError` names nodes and ranks.
        preemption_grace_s: how long the other workers may continue once a worker is lost with a node that was drained.
        relax_collectives_on_preemption: let `report()` and `get_preemption_info()` of the others complete without workers
            that were lost with a node that was drained, so that their checkpoint is committed. Without effect if rank 0 is
            one of them.
    """

    max_failures: int = 0
    fail_fast: Any = _DEPRECATED
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0

    def __post_init__(self) -> None:
        _refuse_deprecated(
            self,
            ("fail_fast",),
            "ray.train.FailureConfig({})",
            {"fail_fast": "max_failures=0 ends the run at the first failure"},
        )
        for name in ("max_failures", "controller_failure_limit", "max_preemption_failures"):
            value = getattr(self, name)
            if not _is_count(value) or value < -1:
                raise ValueError(f"{name} must be a number of failures, or -1 for no limit, got {value!r}")
        if self.preemption_grace_s < 0:
            raise ValueError(f"preemption_grace_s must be >= 0 seconds, not {self.preemption_grace_s}")


@dataclass
class LoggingConfig:
    """The verbosity of the library's own output: a level of `logging`, such as "INFO".

    Raises:
        ValueError: the level is unknown.
    """

    log_level: str = "INFO"

    def __post_init__(self) -> None:
        if not isinstance(self.log_level, str) or self.log_level.upper() not in _LEVELS:
            raise ValueError(
                f"Invalid log_level: {self.log_level!r}. Must be one of: {', '.join(map(repr, _LEVELS))}."
            )
        self.log_level = self.log_level.upper()


@dataclass
class RunConfig:
    """The name and storage of a run, and its settings for failures, checkpoints and logging.

    Args:
        name: the name of the run; one with the same name and storage resumes from its last checkpoint.
            Generated if omitted.
        storage_path: a folder or a URL such as "s3://bucket/folder"; by default ~/ray_results.
        storage_filesystem: a pyarrow filesystem for `storage_path`.
        failure_config, checkpoint_config, logging_config: see the classes of these names.
        callbacks: `UserCallback`s, called on reports and failures.
        worker_runtime_env: the runtime environment of the workers.
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: list[Any] | None = None
    worker_runtime_env: Any = None
    logging_config: LoggingConfig | None = None
    sync_config: Any = _DEPRECATED
    verbose: Any = _DEPRECATED
    stop: Any = _DEPRECATED
    progress_reporter: Any = _DEPRECATED
    log_to_file: Any = _DEPRECATED

    def __post_init__(self) -> None:
        names = ("sync_config", "verbose", "stop", "progress_reporter", "log_to_file")
        _refuse_deprecated(
            self,
            names,
            "RunConfig({})",
            {"stop": "end the training function instead", "verbose": "use logging_config"},
        )
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.logging_config = self.logging_config or LoggingConfig()
        self.worker_runtime_env = self.worker_runtime_env or {}
        self.callbacks = self.callbacks or []
        air_config.check_storage_path(self.storage_path)
        self.storage_path = str(self.storage_path or os.environ.get("RAY_STORAGE") or _default_storage())
        if not self.name:
            self.name = f"ray_train_run-{time.strftime('%Y-%m-%d_%H-%M-%S')}_{uuid.uuid4().hex[:5]}"
        if "/" in self.name or self.name in (".", ".."):
            raise ValueError(f"a run's name must be a valid folder name, not {self.name!r}")
        self._check_callbacks()
        for name, kind in (("checkpoint_config", CheckpointConfig), ("failure_config", FailureConfig)):
            check_kind(getattr(self, name), kind)

    def _check_callbacks(self) -> None:
        from skate.train.callback import UserCallback  # a small module, but one that few runs need

        for each in self.callbacks or ():
            if not isinstance(each, UserCallback):
                raise ValueError(
                    "All callbacks must be instances of `ray.train.UserCallback`: there is "
                    f"{type(each).__name__} ({each!r:.80})"
                )


def check_kind(value: Any, kind: type) -> None:
    """Check that a configuration is one of Train's.

    Raises:
        ValueError: it is something else, such as Tune's class of the same name.
    """
    if not isinstance(value, kind):
        raise ValueError(
            f"Invalid `{kind.__name__}` type: {type(value)}. Use `ray.train.{kind.__name__}` instead; got {value!r:.120}"
        )


def _default_storage() -> str:
    return os.path.expanduser("~/ray_results")
