"""An experiment: a trainable, the space, and the settings shared by its trials."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from skate.train.storage.run_folder import RunFolder
from skate.tune.configs import CheckpointConfig
from skate.tune.error import BadExperiment, TuneError
from skate.tune.experiment.trial import Trial
from skate.tune.placement import PlacementGroupFactory, request_of
from skate.tune.registry import get_trainable, register_trainable
from skate.tune.stopper.factory import stopper_of
from skate.tune.storage import default_storage
from skate.tune.trainable.bound_parameters import name_of, resources_of
from skate.tune.trainable.function import takes_config
from skate.tune.trainable.trainable import Trainable


class Experiment:
    """A trainable with a search space, under a name.

    Args:
        name: the folder for results.
        run: a function of the configuration, a class that inherits from `Trainable`, or the name of a registered one.
        stop: when trials end: {"training_iteration": 10}, a function of trial id and result, or a `Stopper`.
        time_budget_s: seconds after which the search ends.
        config: the space.
        resources_per_trial: such as {"cpu": 2, "gpu": 0.5}.
        num_samples: the number of draws from the space.
        storage_path, storage_filesystem: the location of the folder.
        checkpoint_config: which checkpoints of a trial are kept.
        trial_name_creator, trial_dirname_creator: functions of a trial that return its name and its folder name.
        log_to_file: write the output of trials to files in their folders.
        max_failures: the number of restarts of a failed trial.
        restore: a checkpoint that all trials start from.
        sync_config, export_formats, local_dir: accepted for compatibility.

    Raises:
        TuneError, ValueError: an argument is invalid.
    """

    PUBLIC_KEYS = frozenset({"stop", "num_samples", "time_budget_s"})

    def __init__(
        self,
        name: str,
        run: Any,
        *,
        stop: Any = None,
        time_budget_s: Any = None,
        config: dict[str, Any] | None = None,
        resources_per_trial: Any = None,
        num_samples: int = 1,
        storage_path: str | None = None,
        storage_filesystem: Any = None,
        sync_config: Any = None,
        checkpoint_config: Any = None,
        trial_name_creator: Any = None,
        trial_dirname_creator: Any = None,
        log_to_file: Any = False,
        export_formats: Any = None,
        max_failures: int = 0,
        restore: str | None = None,
        local_dir: str | None = None,
    ) -> None:
        if local_dir is not None:
            raise DeprecationWarning(
                "The `local_dir` argument is deprecated and has been removed. You should set the `storage_path` instead"
            )
        if isinstance(checkpoint_config, Mapping):
            checkpoint_config = CheckpointConfig(**checkpoint_config)
        if config is not None and not isinstance(config, Mapping):
            raise ValueError(
                f"The `config` (the search space) must be a dict. Got {type(config).__name__} instead: {config!r:.80}"
            )
        self.name = name
        self.trainable = self._checked(run)
        self.trainable_name = run if isinstance(run, str) else name_of(run)
        self.config: dict[str, Any] = dict(config or {})
        self.stopping_criterion, self.stopper = stopper_of(stop)
        self.time_budget_s = time_budget_s
        self.resources_per_trial = resources_per_trial
        self.num_samples = num_samples
        self.checkpoint_config: CheckpointConfig = checkpoint_config or CheckpointConfig()
        self.trial_name_creator = trial_name_creator
        self.trial_dirname_creator = trial_dirname_creator
        self.log_to_file = log_to_file
        self.max_failures = max_failures
        self.restore = restore
        self.storage_path, self.storage_filesystem = storage_path, storage_filesystem
        self._folder: RunFolder | None = None
        self._request: PlacementGroupFactory | None = None
        self._check_checkpoints()

    @staticmethod
    def _checked(run: Any) -> Any:
        if isinstance(run, str):
            return get_trainable(run)
        is_class = inspect.isclass(run)
        kinds = (
            "A trainable is a function of the configuration, a class that inherits from ray.tune.Trainable, or a trainer of "
            f"ray.train, got {type(run).__name__}: {run!r:.80}"
        )
        if is_class and not issubclass(run, Trainable):
            raise TypeError(f"a class that is no trainable cannot be run. {kinds}")
        if not callable(run):
            raise TuneError(f"Improper 'run' - not string nor trainable. {kinds}")
        if not is_class:
            takes_config(run)
        return run

    def _check_checkpoints(self) -> None:
        config = self.checkpoint_config
        if inspect.isclass(self.trainable):
            return
        options = [name for name in ("checkpoint_frequency", "checkpoint_at_end") if getattr(config, name)]
        if options:
            verb = "be set for" if options[0] == "checkpoint_frequency" else "be used with"
            raise ValueError(
                f"'{options[0]}' cannot {verb} a function trainable. {self.trainable_name} is a function, which saves when it "
                "reports: tune.report(metrics, checkpoint=...)"
            )

    @property
    def folder(self) -> RunFolder:
        """The folder of the search."""
        if self._folder is None:
            self._folder = RunFolder(
                self.storage_path or default_storage(), self.name, self.storage_filesystem
            )
        return self._folder

    @property
    def path(self) -> str:
        """The path of the search's folder."""
        return self.folder.path

    local_path = path
    local_dir = path
    remote_path = path
    checkpoint_dir = path

    @property
    def run_identifier(self) -> str:
        """The name of the trainable."""
        return self.trainable_name

    @property
    def public_spec(self) -> dict[str, Any]:
        """The part of the experiment that is visible to searchers."""
        return {
            "stop": self.stopping_criterion,
            "num_samples": self.num_samples,
            "time_budget_s": self.time_budget_s,
        }

    @property
    def spec(self) -> dict[str, Any]:
        """The specification from which trials are created."""
        return {"run": self.trainable_name, "config": self.config, **self.public_spec}

    def trial(self, config: dict[str, Any], trial_id: str, tag: str, evaluated: dict[str, Any]) -> Trial:
        """Create a trial of this search.

        Raises:
            ValueError: its resource request is invalid.
            TuneError: both the trainable and `resources_per_trial` request resources.
        """
        own = resources_of(self.trainable, config)
        given = self.resources_per_trial
        if own is not None and given is not None:
            raise TuneError(
                f"{self.trainable_name} requests {own.required_resources} for its trials, and resources_per_trial={given!r} was "
                "given as well: leave out resources_per_trial, or the request of the trainable (default_resource_request() or "
                "tune.with_resources)"
            )
        if own is not None:
            factory = own
        elif callable(given):
            factory = request_of(given, config)
        else:  # the same for all trials
            if self._request is None:
                self._request = request_of(given, config)
            factory = self._request
        found = Trial(
            self.trainable_name,
            config=config,
            trial_id=trial_id,
            evaluated_params=evaluated,
            experiment_tag=tag,
            placement_group_factory=factory,
            stopping_criterion=self.stopping_criterion,
            checkpoint_config=self.checkpoint_config,
            max_failures=self.max_failures,
            experiment=self,
        )
        found.experiment_folder = self.folder
        return found

    @classmethod
    def from_json(cls, name: str, spec: dict[str, Any]) -> Experiment:
        """Create an experiment from a dict as in `run_experiments`: {"run": ..., "config": {...}, ...}.

        Raises:
            TuneError: "run" is missing, or an argument is unknown.
        """
        given = dict(spec)
        if "env" in given:  # the short form of an entry of the configuration
            given["config"] = {**(given.get("config") or {}), "env": given.pop("env")}
        if "run" not in given:
            raise BadExperiment(
                f"No trainable specified! Experiment {name!r} has no 'run': the trainable, or the name of a registered one"
            )
        try:
            return cls(name, given.pop("run"), **given)
        except TypeError as error:
            raise BadExperiment(
                f"Failed to load the following Tune experiment specification: {name!r}: {spec!r:.300}. {error}"
            ) from error

    @classmethod
    def get_trainable_name(cls, run_object: Any) -> str:
        """Return the name for trials of a trainable."""
        return run_object if isinstance(run_object, str) else name_of(run_object)

    @classmethod
    def register_if_needed(cls, run_object: Any) -> str:
        """Register a trainable under its own name; return the name."""
        name = cls.get_trainable_name(run_object)
        if not isinstance(run_object, str):
            register_trainable(name, run_object)
        return name


def experiments_of(given: Any) -> list[Experiment]:
    """Return a list of experiments from one, a list, or a dict of them.

    Raises:
        TuneError: it is none of these.
    """
    if isinstance(given, Experiment):
        return [given]
    if isinstance(given, Mapping):
        return [
            each if isinstance(each, Experiment) else Experiment.from_json(name, each)
            for name, each in given.items()
        ]
    if isinstance(given, (list, tuple)) and all(isinstance(each, Experiment) for each in given):
        return list(given)
    raise BadExperiment(
        f"Invalid argument: {given!r:.80}. Experiments are an Experiment, a list of them, or a dict by name"
    )
