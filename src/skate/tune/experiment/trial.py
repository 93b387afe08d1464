"""One trial: its configuration, its progress, and its results."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage.retention_policy import KeptCheckpoint, best_first
from skate.train.storage.run_folder import RunFolder
from skate.tune.configs import CheckpointConfig
from skate.tune.error import TuneError
from skate.tune.experiment.trial_folder import TrialFolder
from skate.tune.metrics import Histories, flat
from skate.tune.placement import PlacementGroupFactory, request_of

_log = logging.getLogger("skate.tune")

#: Seconds between two updates of a reporter, and the file in which Ray keeps a trial's state.
DEBUG_PRINT_INTERVAL = 5
TRIAL_STATE_FILENAME = "trial_metadata.json"


class ExportFormat:
    """Names of the formats of `Trainable.export_model`."""

    CHECKPOINT = "checkpoint"
    MODEL = "model"
    ONNX = "onnx"
    H5 = "h5"

    @staticmethod
    def validate(formats: list[str]) -> None:
        """Convert names to lower case, in place.

        Raises:
            TuneError: the format is unknown.
        """
        known = (ExportFormat.CHECKPOINT, ExportFormat.MODEL, ExportFormat.ONNX, ExportFormat.H5)
        for index, name in enumerate(formats):
            formats[index] = name.strip().lower()
            if formats[index] not in known:
                raise TuneError(
                    f"Unsupported import/export format: {formats[index]}; the formats are {', '.join(known)}"
                )


class Trial:
    """One trial of a search.

    Attributes:
        trial_id: unique within its search.
        config: the configuration; `evaluated_params` are the parts of it that were drawn.
        status: PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
        last_result: the last result, an empty dict before the first.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"
    #: True if it was started from a checkpoint and has not reported since; and how often it has failed since
    #: then, uncounted.
    restoring = False
    restore_failures = 0

    def __init__(
        self,
        trainable_name: str,
        *,
        config: dict[str, Any] | None = None,
        trial_id: str | None = None,
        storage: Any = None,
        evaluated_params: dict[str, Any] | None = None,
        experiment_tag: str = "",
        placement_group_factory: PlacementGroupFactory | None = None,
        stopping_criterion: Mapping[str, float] | None = None,
        checkpoint_config: CheckpointConfig | None = None,
        export_formats: list[str] | None = None,
        restore_path: str | None = None,
        trial_name_creator: Callable[[Any], str] | None = None,
        trial_dirname_creator: Callable[[Any], str] | None = None,
        log_to_file: Any = None,
        max_failures: int = 0,
        stub: bool = False,
        _setup_default_resource: bool = True,
        experiment: Any = None,
    ) -> None:
        self.trainable_name = trainable_name
        self.trial_id = trial_id or Trial.generate_id()
        self.config = config or {}
        self.evaluated_params = evaluated_params or {}
        self.experiment_tag = experiment_tag
        self.placement_group_factory = placement_group_factory or PlacementGroupFactory([{"CPU": 1}])
        self.stopping_criterion: dict[str, Any] = flat(dict(stopping_criterion or {}))
        self._warned_of: set[str] = set()
        self.checkpoint_config = checkpoint_config or CheckpointConfig()
        self.max_failures = max_failures
        self.experiment = experiment
        self.stub = stub
        self.log_to_file, self.restore_path, self.export_formats = log_to_file, restore_path, export_formats
        self.status = Trial.PENDING
        self.custom_trial_name: str | None = None
        if trial_name_creator is not None:
            self.custom_trial_name = str(trial_name_creator(self))
        self._dirname_creator = trial_dirname_creator
        self._begin()

    def _begin(self) -> None:
        """Set the attributes that change while the trial runs."""
        self.relative_logdir = ""
        self.experiment_folder: RunFolder | None = None
        self._folder: tuple[RunFolder, TrialFolder] | None = None
        #: A temporary folder for loggers while the trial runs, if the search's folder is remote.
        self.log_folder: str | None = None
        self.last_result: dict[str, Any] = {}
        self.histories = Histories()
        self.results = 0
        self.num_failures = 0
        #: The number of uncounted failures since its last result, after it resumed from a checkpoint.
        self.restore_failures = 0
        self.error_text: str | None = None
        #: Why the search has ended it; "" if it has ended by itself.
        self.end_reason = ""
        self.pickled_error: Exception | None = None
        self.start_time: float | None = None
        #: Its existing checkpoints, oldest first.
        self.kept: list[KeptCheckpoint] = []
        self.next_checkpoint = 0
        #: The checkpoint from which it continues next, with its progress.
        self.source: Source | None = None
        #: True if it was started from a checkpoint and has not reported since.
        self.restoring = False
        #: True if a save is in progress whose name is still unknown.
        self.saving = 0

    # -- names

    @classmethod
    def generate_id(cls) -> str:
        """Generate a unique trial id."""
        return uuid.uuid4().hex[:8]

    def __str__(self) -> str:
        if self.custom_trial_name:
            return self.custom_trial_name
        env = self.config.get("env")
        if env is None:
            return f"{self.trainable_name}_{self.trial_id}"
        name = env.__name__ if isinstance(env, type) else str(env)
        return f"{self.trainable_name}_{name}_{self.trial_id}".replace("/", "_")

    def __repr__(self) -> str:
        return str(self)

    def name_with(
        self,
        name_creator: Callable[[Any], str] | None,
        dirname_creator: Callable[[Any], str] | None,
        stamp: str,
        taken: set[str] | None = None,
    ) -> None:
        """Set the trial's name and the name of its folder, which is added to the taken ones.

        Raises:
            ValueError: the user's function returned no name, or one that is not a valid folder name.
        """
        if name_creator is not None:
            self.custom_trial_name = str(name_creator(self))
        if dirname_creator is not None:
            found = str(dirname_creator(self))
            if not found or "/" in found:
                raise ValueError(
                    "trial_dirname_creator must return the name of a folder, without a slash; it returned "
                    f"{found!r}"
                )
        else:
            full = f"{self}_{self.experiment_tag}"[: 250 - len(stamp)].rstrip("_")
            found = f"{full}_{stamp}".replace("/", "_")
        while taken is not None and found in taken:  # two trials would write the same files
            found = f"{found}_{uuid.uuid4().hex[:4]}"
        self.relative_logdir = found
        if taken is not None:
            taken.add(found)

    # -- folders

    @property
    def folder(self) -> TrialFolder:
        """The folder of the trial."""
        top, found = self.experiment_folder, self._folder
        assert top is not None
        if found is None or found[0] is not top or found[1].name != self.relative_logdir:
            self._folder = found = (top, TrialFolder(top, self.relative_logdir))
        return found[1]

    @property
    def path(self) -> str | None:
        """The path of the trial's folder."""
        return self.folder.path if self.experiment_folder is not None and self.relative_logdir else None

    @property
    def local_path(self) -> str | None:
        """The folder for loggers: the trial's own, or a temporary local one if that is remote."""
        return self.log_folder or self.path

    logdir = path
    local_dir = path

    @property
    def experiment_dir_name(self) -> str:
        """The name of the search."""
        return self.experiment_folder.name if self.experiment_folder else ""

    def init_local_path(self) -> None:
        """Create the trial's folder if it is local and does not exist."""
        if self.path is not None and self.folder.local:
            os.makedirs(self.path, exist_ok=True)

    init_logdir = init_local_path

    @property
    def local_experiment_path(self) -> str | None:
        """The folder of the search, if it is on this machine."""
        top = self.experiment_folder
        return top.path if top is not None and top.local else None

    @property
    def remote_experiment_path(self) -> str | None:
        """The folder of the search, local or remote."""
        return self.experiment_folder.path if self.experiment_folder is not None else None

    # -- its process

    @property
    def node_ip(self) -> str | None:
        """The address of the machine that sent its last result."""
        return self.last_result.get("node_ip")

    def get_ray_actor_ip(self) -> str | None:
        """The IP address of the trial's node, as `node_ip`."""
        return self.node_ip

    def get_trainable_cls(self) -> Any:
        """The trainable: a function or a class."""
        return self.experiment.trainable if self.experiment is not None else None

    # -- progress

    @property
    def is_saving(self) -> bool:
        """True while a save is in progress."""
        return self.saving > 0

    @property
    def latest_checkpoint_result(self) -> Any:
        """The newest checkpoint with its metrics; None without one."""
        return self.latest

    def is_finished(self) -> bool:
        """True if the trial has ended, successfully or not."""
        return self.status in (Trial.TERMINATED, Trial.ERROR)

    def set_status(self, status: str) -> None:
        """Set the status."""
        self.status = status

    def set_config(self, config: dict[str, Any]) -> None:
        """Replace the trial's configuration."""
        self.config = config

    def set_experiment_tag(self, experiment_tag: str) -> None:
        """Replace the trial's tag."""
        self.experiment_tag = experiment_tag

    def update_resources(self, resources: Any) -> None:
        """Change the resources that the trial requests at its next start.

        Raises:
            ValueError: the trial is running.
        """
        if self.status == Trial.RUNNING:
            raise ValueError(f"the resources of {self} cannot be changed while it runs; pause it first")
        self.placement_group_factory = request_of(resources, self.config)

    def create_placement_group_factory(self) -> None:
        """No-op: the resource request, by default one CPU, is determined when the trial is created."""

    def should_checkpoint(self) -> bool:
        """Return True if a checkpoint is due after the last result."""
        if self.last_result.get("done") and self.checkpoint_at_end:
            return True
        every = self.checkpoint_freq
        return bool(every) and self.last_result.get("training_iteration", 0) % every == 0

    def should_recover(self) -> bool:
        """Return True if the trial restarts after its last failure."""
        return self.max_failures < 0 or self.num_failures <= self.max_failures

    @property
    def num_failures_after_restore(self) -> int:
        """The number of its failures."""
        return self.num_failures

    @property
    def is_restoring(self) -> bool:
        """True if the trial continues from a checkpoint and has not reported since."""
        return self.restoring

    def reset(self) -> Trial:
        """Return a copy of this trial with another id, not started."""
        return Trial(
            self.trainable_name,
            config=self.config,
            evaluated_params=self.evaluated_params,
            experiment_tag=self.experiment_tag,
            placement_group_factory=self.placement_group_factory,
            stopping_criterion=self.stopping_criterion,
            checkpoint_config=self.checkpoint_config,
            export_formats=self.export_formats,
            restore_path=self.restore_path,
            trial_dirname_creator=self._dirname_creator,
            log_to_file=self.log_to_file,
            max_failures=self.max_failures,
            experiment=self.experiment,
        )

    def should_stop(self, result: Mapping[str, Any]) -> bool:
        """True if a flat result meets a stopping criterion; a missing metric stops nothing, because a later
        result may have it.
        """
        if result.get("done"):
            return True
        for name, bound in self.stopping_criterion.items():
            if name not in result:
                self._warn_missing(name, result)
            elif result[name] >= bound:
                return True
        return False

    def _warn_missing(self, name: str, result: Mapping[str, Any]) -> None:
        """Log, once, that a result lacks the metric of a stopping criterion."""
        if name in self._warned_of:
            return
        self._warned_of.add(name)
        known = ", ".join(
            sorted(each for each in result if each != "config" and not each.startswith("config/"))
        )
        _log.warning(
            "stop uses the metric %r, which is missing in a result of %s; it has: %s", name, self, known
        )

    def update_last_result(
        self, result: dict[str, Any], flat_result: Mapping[str, Any] | None = None
    ) -> None:
        """Record a result; `flat_result` is the same with flat names, if the caller has it."""
        self.last_result = result
        self.results += 1
        self.restoring = False
        self.restore_failures = 0
        self.histories.add(flat(result) if flat_result is None else flat_result)

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Return the last, minimum, maximum and average values of each metric."""
        return {name: history.as_dict() for name, history in self.histories.by_name.items()}

    @property
    def metric_n_steps(self) -> dict[str, dict[str, list[float]]]:
        """Return the last five and the last ten values of each metric."""
        return {
            name: {"5": list(history.recent)[-5:], "10": list(history.recent)}
            for name, history in self.histories.by_name.items()
        }

    @property
    def has_reported_at_least_once(self) -> bool:
        """True if there is a result."""
        return self.results > 0

    # -- checkpoints

    @property
    def latest(self) -> KeptCheckpoint | None:
        """The newest checkpoint."""
        return max(self.kept, key=lambda each: each.index) if self.kept else None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint."""
        found = self.latest
        return None if found is None else self.folder.checkpoint(found.name)

    def has_checkpoint(self) -> bool:
        """True if there is a checkpoint."""
        return bool(self.kept)

    def ranked(self) -> list[KeptCheckpoint]:
        """All checkpoints, oldest first, or worst first if they are ranked."""
        config = self.checkpoint_config
        if config.checkpoint_score_attribute is None:
            return sorted(self.kept, key=lambda each: each.index)
        return best_first(self.kept, config.checkpoint_score_attribute, config.checkpoint_score_order)[::-1]

    @property
    def checkpoint_freq(self) -> int:
        """Iterations between checkpoints of a class trainable."""
        return int(self.checkpoint_config.checkpoint_frequency or 0)

    @property
    def checkpoint_at_end(self) -> bool:
        """True if a class trainable saves a checkpoint at its end."""
        return bool(self.checkpoint_config.checkpoint_at_end)

    # -- errors

    @property
    def error_file(self) -> str | None:
        """The path of the file with its errors, None if it had none."""
        return f"{self.path}/error.txt" if self.error_text is not None else None

    @property
    def pickled_error_file(self) -> str | None:
        """The path of the file with its last exception, None if it had none."""
        return f"{self.path}/error.pkl" if self.pickled_error is not None else None

    def get_error(self) -> Exception | None:
        """The exception that ended the trial."""
        return self.pickled_error or (TuneError(self.error_text) if self.error_text else None)

    get_pickled_error = get_error


class Source:
    """A checkpoint from which a trial starts, its own or another trial's."""

    __slots__ = ("iteration", "name", "time_total", "trial_id")

    def __init__(self, trial_id: str, name: str, iteration: int, time_total: float) -> None:
        self.trial_id, self.name, self.iteration, self.time_total = trial_id, name, iteration, time_total

    def __repr__(self) -> str:
        return f"Source({self.name} of {self.trial_id}, iteration {self.iteration})"


def source_of(trial: Trial, kept: KeptCheckpoint) -> Source:
    """Create the source for one of a trial's checkpoints."""
    metrics = kept.metrics
    return Source(
        trial.trial_id,
        kept.name,
        int(metrics.get("training_iteration") or 0),
        float(metrics.get("time_total_s") or 0.0),
    )
