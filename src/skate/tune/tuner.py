"""`Tuner`: a trainable, a space, and `fit`."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import os
import pickle
from collections.abc import Mapping
from typing import Any

from skate.air.config import RunConfig
from skate.train.storage import filesystem as files
from skate.train.storage.run_folder import RunFolder
from skate.tune.analysis import ExperimentAnalysis
from skate.tune.configs import ResumeConfig, ResumeType, TuneConfig, run_config_of
from skate.tune.error import TuneError
from skate.tune.execution.launch import Launch, new_name
from skate.tune.experiment.experiment import Experiment
from skate.tune.journal.codec import dumped
from skate.tune.journal.journal import VERSION, check_version
from skate.tune.registry import get_trainable, trainable_exists
from skate.tune.result_grid import ResultGrid
from skate.tune.trainable.bound_parameters import name_of
from skate.tune.trainable.function import FunctionTrainable
from skate.tune.trainable.trainable import Trainable
from skate.tune.trainable.trainer import is_trainer, trainable_of_trainer, trainer_run_config
from skate.tune.utils.dicts import flatten_dict

_SAVED = "tuner.pkl"


class Tuner:
    """Searches for the best configuration of a trainable.

    Args:
        trainable: a function of the configuration, a class that inherits from `Trainable`, the name of a
            registered one, or a trainer of ray.train.
        param_space: the space, a nested dict or the configuration of an RLlib algorithm; for a trainer,
            {"train_loop_config": {...}}.
        tune_config: the number and order of trials, searcher and scheduler.
        run_config: name, storage, failures, checkpoints, callbacks.

    Raises:
        TuneError, TypeError, ValueError: an argument is invalid; the message names it and the expected values.
    """

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Any = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
        _tuner_kwargs: Any = None,
        _tuner_internal: Any = None,
        _entrypoint: Any = None,
    ) -> None:
        if trainable is None:
            raise TuneError(
                "You need to provide a trainable to tune: a function of the configuration, a class that inherits from "
                "ray.tune.Trainable, or a trainer"
            )
        if hasattr(param_space, "to_dict"):  # the configuration of an algorithm of RLlib
            param_space = param_space.to_dict()
        if param_space is not None and not isinstance(param_space, Mapping):
            raise ValueError(
                f"The `param_space` passed to the `Tuner` must be a dict. Got {type(param_space).__name__} instead: "
                f"{param_space!r:.80}"
            )
        if tune_config is not None and not isinstance(tune_config, TuneConfig):
            raise TypeError(
                f"tune_config must be a ray.tune.TuneConfig, not {type(tune_config).__name__}: "
                f"{tune_config!r:.80}"
            )
        self._trainable = trainable
        self._param_space = dict(param_space or {})
        self._tune_config = tune_config or TuneConfig()
        if run_config is None and is_trainer(trainable):
            run_config = trainer_run_config(trainable)
        self._run_config = run_config_of(run_config)
        self._resume: ResumeConfig | None = None
        self._old_space: dict[str, Any] | None = None
        self._folder: RunFolder | None = None
        self._results: ResultGrid | None = None
        self.__dict__["restore"] = _restore_of_an_instance  # shadows the class's own
        if self._run_config.name is not None and _tuner_internal is None:
            # From now on the search can be restored. Write errors are reported by `fit`.
            with contextlib.suppress(TuneError, TypeError, ValueError, OSError):
                self._save(self._experiment())

    # -- run

    def fit(self) -> ResultGrid:
        """Run the search to its end. Trials that fail do not raise; see `ResultGrid.errors`.

        Returns:
            The results, one per trial.

        Raises:
            TuneError: a trial requests more than the cluster has, or a required metric is never reported.
            TypeError: the space cannot be serialized; the error names the part.
            ValueError: options contradict each other.
        """
        experiment = self._experiment()
        if self._resume is None:
            self._save(experiment)
        launch = Launch(experiment, self._tune_config, self._run_config, self._resume, self._old_space)
        analysis = launch.run()
        self._resume = None
        self._folder = experiment.folder
        self._results = ResultGrid(analysis)
        if launch.interrupted:
            print(  # Ctrl-C was pressed at a terminal
                f"The search was interrupted. Resume it with Tuner.restore({experiment.path!r}, trainable=...).fit()"
            )
        return self._results

    def get_results(self) -> ResultGrid:
        """Return the results of a finished or restored search.

        Raises:
            RuntimeError: it has not run.
        """
        if self._results is not None:
            return self._results
        if self._folder is None:
            raise RuntimeError(
                "Can't return results as experiment has not been run, yet. Call `Tuner.fit()` to run the experiment first, or "
                "restore one that has run with Tuner.restore"
            )
        config = self._tune_config
        metric = config.metric if isinstance(config.metric, str) else None
        analysis = ExperimentAnalysis(
            self._folder.path,
            storage_filesystem=self._folder.filesystem,
            default_metric=metric,
            default_mode=config.mode if isinstance(config.mode, str) else None,
        )
        return ResultGrid(analysis)

    @property
    def folder(self) -> RunFolder:
        """Return the storage of the search; an unnamed search gets a name now."""
        if self._run_config.name is None:
            trainable = self._trainable
            self._run_config = copy.copy(self._run_config)
            self._run_config.name = new_name(trainable if isinstance(trainable, str) else name_of(trainable))
        return self._experiment().folder

    def _experiment(self) -> Experiment:
        run, config = self._run_config, self._tune_config
        trainable = self._trainable
        if is_trainer(trainable):
            trainable = trainable_of_trainer(trainable)
        name = run.name or new_name(trainable if isinstance(trainable, str) else name_of(trainable))
        storage, filesystem = run.storage_path, run.storage_filesystem
        if self._folder is not None:
            name, storage, filesystem = self._folder.name, self._folder.root, self._folder.filesystem
        assert run.failure_config is not None
        return Experiment(
            name,
            trainable,
            stop=run.stop,
            time_budget_s=config.time_budget_s,
            config=self._param_space,
            num_samples=config.num_samples,
            storage_path=storage,
            storage_filesystem=filesystem,
            checkpoint_config=_saving_at_end(trainable, run.checkpoint_config),
            log_to_file=run.log_to_file,
            max_failures=run.failure_config.max_failures,
        )

    # -- save and restore

    def _save(self, experiment: Experiment) -> None:
        """Write the files that `restore` needs in addition to the journal."""
        space = dumped(self._param_space, "param_space")
        rest = {}
        for name in ("_tune_config", "_run_config"):
            rest[name] = _without_what_cannot_be_saved(getattr(self, name))
        experiment.folder.create()
        contents = {"version": VERSION, "trainable": experiment.trainable_name, "space": space, **rest}
        contents["names"] = _names_in(self._param_space)
        files.write_bytes(
            experiment.folder.filesystem, experiment.folder.at(_SAVED), dumped(contents, "the search")
        )

    @classmethod
    def restore(
        cls,
        path: str,
        trainable: Any,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: dict[str, Any] | None = None,
        storage_filesystem: Any = None,
        _resume_config: ResumeConfig | None = None,
    ) -> Tuner:
        """Restore a search that was interrupted or had failed trials; `fit()` resumes it.

        Args:
            path: the search's folder: its storage_path and its name.
            trainable: the same as before.
            resume_unfinished: True to resume unfinished trials from their last checkpoints.
            resume_errored: True to resume failed trials from their last checkpoints.
            restart_errored: True to restart failed trials; `resume_errored` takes precedence.
            param_space: of the same shape as before; its objects replace those of the trials.
            storage_filesystem: a pyarrow filesystem for `path`.

        Raises:
            FileNotFoundError: there is no search at that path.
            ValueError: the trainable or the parameters of the space have other names.
        """
        folder, saved = _saved_at(path, storage_filesystem)
        if trainable is None:
            raise TuneError(
                f"Tuner.restore needs the original trainable of the search, {saved['trainable']!r}"
            )
        found = cls(
            trainable,
            param_space=pickle.loads(saved["space"]) if param_space is None else param_space,
            tune_config=saved["_tune_config"],
            run_config=saved["_run_config"],
            _tuner_internal="restored",
        )
        found._folder = folder
        if param_space is not None:
            _check_names(param_space, saved.get("names"))
            found._old_space = _loaded(saved["space"])
        name = found._experiment().trainable_name
        if name != saved["trainable"]:
            raise ValueError(
                "Invalid `trainable` input to `Tuner.restore()`. To fix this error, pass in the same trainable that was used to "
                f"initialize the Tuner: the search at {folder.path!r} was of {saved['trainable']!r}, not of {name!r}"
            )
        errored = (
            ResumeType.RESUME
            if resume_errored
            else ResumeType.RESTART
            if restart_errored
            else ResumeType.SKIP
        )
        unfinished = ResumeType.RESUME if resume_unfinished else ResumeType.SKIP
        found._resume = _resume_config or ResumeConfig(unfinished=unfinished, errored=errored)
        return found

    @classmethod
    def can_restore(cls, path: str | os.PathLike[str], storage_filesystem: Any = None) -> bool:
        """True if there is a search at a path."""
        folder = folder_of(path, storage_filesystem)
        return files.read_bytes(folder.filesystem, folder.at(_SAVED)) is not None

    def __repr__(self) -> str:
        trainable = self._trainable
        return f"<Tuner of {trainable if isinstance(trainable, str) else name_of(trainable)}>"


def _loaded(contents: bytes) -> Any:
    """Load a saved space; None if its contents cannot be read here and it must be passed again."""
    try:
        return pickle.loads(contents)
    except Exception:  # reading the user's objects may raise anything
        return None


def _saving_at_end(trainable: Any, config: Any) -> Any:
    """The checkpoint config of a search: a class that can be saved is saved at the end, unless configured otherwise."""
    found = (
        get_trainable(trainable) if isinstance(trainable, str) and trainable_exists(trainable) else trainable
    )
    saves = (
        inspect.isclass(found) and getattr(found, "save_checkpoint", None) is not Trainable.save_checkpoint
    )
    if not saves or issubclass(found, FunctionTrainable) or config.checkpoint_at_end is not None:
        return config
    return dataclasses.replace(config, checkpoint_at_end=True)


def _names_in(space: Mapping[str, Any]) -> list[str]:
    return sorted(map(str, flatten_dict(dict(space))))


def _check_names(space: Mapping[str, Any], before: list[str] | None) -> None:
    """Check that a space has the same names as before."""
    names = _names_in(space)
    if before is not None and names != before:
        raise ValueError(
            "Invalid `param_space` input to `Tuner.restore()`. To fix this error, pass in the same `param_space` that was used "
            f"to initialize the Tuner; objects in it may change, names may not: expected {before}, got "
            f"{names}"
        )


def _restore_of_an_instance(*_: Any, **__: Any) -> None:
    raise AttributeError(
        "`Tuner.restore()` is a classmethod and cannot be called on an instance. Use `tuner = Tuner.restore(...)` instead"
    )


def _saved_at(path: str, filesystem: Any) -> tuple[RunFolder, dict[str, Any]]:
    folder = folder_of(path, filesystem)
    contents = files.read_bytes(folder.filesystem, folder.at(_SAVED))
    if contents is None:
        raise FileNotFoundError(
            f"there is no search at {folder.path!r}: no {_SAVED} is there. The path of a search is its "
            "storage_path and its name"
        )
    saved = pickle.loads(contents)
    check_version(saved["version"], folder)
    return folder, saved


def folder_of(path: str | os.PathLike[str], filesystem: Any = None) -> RunFolder:
    """Return the folder at a path."""
    given = os.fspath(path).rstrip("/")
    parent, _, name = given.rpartition("/")
    return RunFolder(parent or ".", name, filesystem)


def _without_what_cannot_be_saved(config: Any) -> Any:
    """Copy a config without callbacks, filesystems and other unpicklable values: they are passed again or omitted."""
    found = copy.copy(config)
    for name, value in list(vars(found).items()):
        try:
            dumped(value)
        except TypeError:
            setattr(found, name, None)
    return found
