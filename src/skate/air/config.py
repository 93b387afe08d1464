"""Settings of searches and of older runs: resources, failures, checkpoints, storage.

`ray.tune` has them under the same names. Trainers take those of `ray.train`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from skate.resources import Resources
from skate.tune.placement import PlacementGroupFactory
from skate.tune.storage import default_storage

MAX = "max"
MIN = "min"
_DEPRECATED = "DEPRECATED"


def check_storage_path(path: object) -> None:
    """Raise TypeError if a `storage_path` is neither a path, a URL nor None."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"storage_path must be a path or a URL, got {path!r:.80}")


def brief(config: Any, **defaults: Any) -> str:
    """Format a config without the fields that have their default value."""
    shown = []
    for field in fields(config):
        value = getattr(config, field.name)
        default = defaults.get(field.name, field.default)
        if default is MISSING or value != default:
            shown.append(f"{field.name}={value!r}")
    return f"{type(config).__name__}({', '.join(shown)})"


@dataclass
class ScalingConfig:
    """The number of workers of a run, and their resources.

    Args:
        trainer_resources: the resources of the process that starts the workers; 1 CPU by default.
        num_workers: the number of workers.
        use_gpu: one GPU per worker, unless `resources_per_worker` sets another amount.
        resources_per_worker: such as {"CPU": 2, "GPU": 1}; by default 1 CPU, or 1 GPU with `use_gpu`.
        placement_strategy: PACK, SPREAD, STRICT_PACK or STRICT_SPREAD.
        accelerator_type: the kind of accelerator that nodes must have, such as "H100".

    Raises:
        ValueError: `use_gpu` and `resources_per_worker` contradict each other.
    """

    trainer_resources: Any = None
    num_workers: Any = 1
    use_gpu: Any = False
    resources_per_worker: Any = None
    placement_strategy: Any = "PACK"
    accelerator_type: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.resources_per_worker, Mapping):
            self._check_gpus(self.resources_per_worker)

    def _check_gpus(self, given: Mapping[str, float]) -> None:
        gpus = given.get("GPU", 0)
        if gpus and not self.use_gpu:
            raise ValueError(
                "`use_gpu` is False but `GPU` was found in `resources_per_worker` "
                f"({gpus} GPU): set use_gpu=True, or leave GPU out"
            )
        if self.use_gpu and "GPU" in given and not gpus:
            raise ValueError(
                "`use_gpu` is True but `GPU` is set to 0 in `resources_per_worker`: "
                "leave GPU out, or set use_gpu=False"
            )

    def __repr__(self) -> str:
        return brief(self)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and self.as_placement_group_factory() == other.as_placement_group_factory()
        )

    __hash__ = None  # type: ignore[assignment]  # it may change

    @property
    def _resources_per_worker_not_none(self) -> dict[str, float]:
        given = self.resources_per_worker
        found: dict[str, float] = {name: amount for name, amount in (given or {}).items() if amount}
        if self.use_gpu:
            found.setdefault("GPU", 1)
        elif given is None:
            found = {"CPU": 1}
        if self.accelerator_type:
            found.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return found

    @property
    def _trainer_resources_not_none(self) -> dict[str, float]:
        if self.trainer_resources is None:
            return {"CPU": 1}
        return {name: amount for name, amount in self.trainer_resources.items() if amount}

    @property
    def _most_workers(self) -> int:
        return int(self.num_workers or 0)

    @property
    def total_resources(self) -> dict[str, float]:
        """The total resources of all workers and the process that starts them."""
        workers = Resources(self._resources_per_worker_not_none) * self._most_workers
        return {name: float(amount) for name, amount in (workers + self._trainer_resources_not_none).items()}

    @property
    def num_cpus_per_worker(self) -> float:
        """The number of CPUs per worker."""
        return self._resources_per_worker_not_none.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        """The number of GPUs per worker."""
        return self._resources_per_worker_not_none.get("GPU", 0)

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """The resources per worker besides CPU and GPU."""
        wanted = self._resources_per_worker_not_none
        return {name: amount for name, amount in wanted.items() if name not in ("CPU", "GPU")}

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """Return the resource request of a trial: the first bundle is for the first worker and the process
        that starts all workers."""
        each: dict[str, float] = dict(self._resources_per_worker_not_none)
        first: dict[str, float] = dict(Counter(self._trainer_resources_not_none) + Counter(each))
        return PlacementGroupFactory(
            [{}, first, *[each] * (self._most_workers - 1)], strategy=self.placement_strategy
        )

    @classmethod
    def from_placement_group_factory(cls, pgf: PlacementGroupFactory) -> ScalingConfig:
        """Return the config for a trial's resource request."""
        bundles = pgf.bundles
        each = bundles[-1]
        return ScalingConfig(
            trainer_resources=dict(Counter(bundles[0]) - Counter(each)),
            num_workers=len(bundles),
            use_gpu=bool(each.get("GPU", False)),
            resources_per_worker=each,
            placement_strategy=pgf.strategy,
        )


@dataclass
class FailureConfig:
    """How often a trial may fail and restart.

    Args:
        max_failures: the number of restarts of a failed trial, from its last checkpoint; -1 for no limit.
        fail_fast: True to end the whole search at the first failed trial; "raise" also raises its error.

    Raises:
        ValueError: a value is out of range, or the two contradict each other.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        most = self.max_failures
        if isinstance(most, bool) or not isinstance(most, int) or most < -1:
            raise ValueError(f"max_failures must be a number of failures, or -1 for no limit, not {most!r}")
        text = isinstance(self.fail_fast, str) and self.fail_fast.upper() == "RAISE"
        if not (isinstance(self.fail_fast, bool) or text):
            raise ValueError(f"fail_fast must be one of {{bool, 'raise'}}. Got {self.fail_fast!r}")
        if self.fail_fast and self.max_failures:
            raise ValueError(
                f"max_failures must be 0 if fail_fast={self.fail_fast!r}. That ends the search at the first "
                f"failure, but max_failures={self.max_failures} restarts after one; set only one of them"
            )

    def __repr__(self) -> str:
        return brief(self)


@dataclass
class CheckpointConfig:
    """Which checkpoints of a trial are kept, and how often a class trainable saves one.

    Args:
        num_to_keep: the number to keep; None keeps all. The last one is always kept.
        checkpoint_score_attribute: the reported metric to rank by; None ranks by age.
        checkpoint_score_order: "max" or "min": which end of the metric is best.
        checkpoint_frequency: iterations of a class trainable between checkpoints; 0 for none. Functions report their own.
        checkpoint_at_end: True if a class trainable saves one when its trial ends.

    Raises:
        ValueError: a value is out of range.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = MAX
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None
    _checkpoint_keep_all_ranks: Any = _DEPRECATED
    _checkpoint_upload_from_workers: Any = _DEPRECATED

    def __post_init__(self) -> None:
        if self._checkpoint_keep_all_ranks != _DEPRECATED:
            raise DeprecationWarning(
                "The experimental `_checkpoint_keep_all_ranks` config is deprecated. Workers that keep no checkpoint report none"
            )
        if self._checkpoint_upload_from_workers != _DEPRECATED:
            raise DeprecationWarning(
                "The experimental `_checkpoint_upload_from_workers` config is deprecated. Workers always "
                "write checkpoints"
            )
        number = self.num_to_keep
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ValueError(
                f"Received invalid num_to_keep: {number}. Must be None or an integer >= 1: a number of checkpoints, None for all"
            )
        if self.checkpoint_score_order not in (MAX, MIN):
            raise ValueError(
                f'checkpoint_score_order must be either "max" or "min": which end of the metric is best, not '
                f"{self.checkpoint_score_order!r}"
            )
        if not isinstance(self.checkpoint_frequency, int) or self.checkpoint_frequency < 0:
            raise ValueError(f"checkpoint_frequency must be >=0, got {self.checkpoint_frequency!r}")

    def __repr__(self) -> str:
        return brief(self)

    @property
    def _tune_legacy_checkpoint_score_attr(self) -> str | None:
        """The equivalent `checkpoint_score_attr` of `tune.run`."""
        name = self.checkpoint_score_attribute
        return f"min-{name}" if name is not None and self.checkpoint_score_order == MIN else name


@dataclass
class SyncConfig:
    """Accepted for compatibility: trials write to the storage themselves, so there is nothing to synchronize."""

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True


@dataclass
class RunConfig:
    """The name of a search, the location of its results, and its callbacks and limits.

    Args:
        name: the name of the search, a folder in `storage_path`; generated if omitted.
        storage_path: a folder or a URL such as "s3://bucket/folder"; by default ~/ray_results.
        storage_filesystem: a pyarrow filesystem in which `storage_path` is a path.
        failure_config, checkpoint_config: see these classes.
        sync_config: accepted for compatibility.
        verbose: 0 for no output, 1 for the table of trials, 2 for results as well. By default the table is shown in a
            terminal and in a notebook.
        stop: when a trial ends: {"training_iteration": 10}, a function of trial id and result, or a `Stopper`.
        callbacks: `ray.tune.Callback`s.
        progress_reporter: shows the progress of the search.
        log_to_file: True or names, to write the output of trials to files in their folders.

    Raises:
        ValueError: a value is out of range.
        DeprecationWarning: `local_dir` was given.
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any = None
    failure_config: Any = None
    checkpoint_config: Any = None
    sync_config: Any = None
    verbose: Any = None
    stop: Any = None
    callbacks: list[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: Any = None

    #: The defaults of omitted configs.
    _kinds: ClassVar[tuple[type, type, type]] = (FailureConfig, CheckpointConfig, SyncConfig)

    def __post_init__(self) -> None:
        if self.local_dir is not None:
            raise DeprecationWarning(
                "The `RunConfig(local_dir)` argument is deprecated. You should set the `RunConfig(storage_path)` instead."
            )
        failures, checkpoints, syncing = self._kinds
        self.failure_config = self.failure_config or failures()
        self.sync_config = self.sync_config or syncing()
        self.checkpoint_config = _checkpoint_config(self.checkpoint_config, checkpoints)
        check_storage_path(self.storage_path)
        self.storage_path = os.path.expanduser(str(self.storage_path or default_storage()))
        # By default, shown only in a terminal or a notebook.
        self._verbose = self.verbose
        if self.verbose is None:
            self.verbose = 1
        if self.name is not None and not all(part.strip(".") for part in self.name.split("/")):
            raise ValueError(f"a search's name must be a valid folder name, not {self.name!r}")
        log = self.log_to_file
        pair = isinstance(log, (tuple, list)) and len(log) == 2 and all(isinstance(each, str) for each in log)
        if not (isinstance(log, (bool, str)) or pair):
            raise ValueError(
                f"log_to_file must be True, a file name, or a pair of them for output and errors, not {log!r}"
            )

    def __repr__(self) -> str:
        defaults = {
            "failure_config": FailureConfig(),
            "sync_config": SyncConfig(),
            "checkpoint_config": CheckpointConfig(),
        }
        return brief(self, **defaults)


def _checkpoint_config(given: Any, kind: type) -> Any:
    if given is None:
        return kind()
    if isinstance(given, Mapping):
        return kind(**given)
    names = ("num_to_keep", "checkpoint_score_attribute", "checkpoint_score_order")
    if isinstance(given, CheckpointConfig):
        return given
    if all(hasattr(given, name) for name in names):  # the class of ray.train
        return kind(**{name: getattr(given, name) for name in names})
    raise ValueError(f"checkpoint_config must be a ray.tune.CheckpointConfig, not {type(given).__name__}")


__all__ = ["MAX", "MIN", "CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]
