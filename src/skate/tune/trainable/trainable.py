"""The class API: training step by step, with saving and resuming."""

from __future__ import annotations

import copy
import os
import pickle
import socket
import tempfile
import time
from datetime import datetime
from typing import Any

from skate.train.checkpoint import Checkpoint
from skate.train.storage import filesystem as files
from skate.tune.placement import PlacementGroupFactory
from skate.tune.trainable import session
from skate.tune.trainable.saved_checkpoint import SavedCheckpoint
from skate.tune.trainable.session import TrialSpec

#: The duration of `setup` in seconds after which Ray warns.
SETUP_TIME_THRESHOLD = 10
DICT_CHECKPOINT = "_dict_checkpoint.pkl"
_STATE = ".tune_metadata"


def where_am_i() -> dict[str, Any]:
    """Return the process id, and the name and address of the machine."""
    global _where
    if _where is None or _where["pid"] != os.getpid():
        import skate.util  # workers have loaded it; a program that only defines trainables does not need it

        _where = {
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            "node_ip": skate.util.get_node_ip_address(),
        }
    return _where


_where: dict[str, Any] | None = None


class Trainable:
    """Base class of trainables: define `setup`, `step`, `save_checkpoint` and `load_checkpoint`; the other
    methods call them.

    Args:
        config: the configuration of the trial.
        storage: accepted for compatibility.
    """

    def __init__(self, config: dict[str, Any] | None = None, storage: Any = None) -> None:
        self.config = config or {}
        self._begin()
        self.setup(copy.deepcopy(self.config))

    def _begin(self) -> None:
        spec = session.spec()
        self._iteration = spec.iteration if spec else 0
        self._time_total = spec.time_total if spec else 0.0
        self._since_restore = 0
        self._time_since_restore = 0.0
        self._timesteps_total: float | None = None
        self._episodes_total: float | None = None
        self._last_result: dict[str, Any] = {}
        self.latest_checkpoint: Checkpoint | None = spec.checkpoint if spec else None

    # -- for subclasses to define

    def setup(self, config: dict[str, Any]) -> None:
        """Called once, before the first step."""

    def step(self) -> dict[str, Any]:
        """Run one iteration; return its metrics, with "done": True if it was the last."""
        raise NotImplementedError(
            f"{type(self).__name__} must define step(), which returns a dict of metrics"
        )

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | None:
        """Save the state to a folder, or return it as a dict."""
        raise NotImplementedError(f"{type(self).__name__} must define save_checkpoint() to be saved")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Load a saved state: the dict or the folder."""
        raise NotImplementedError(
            f"{type(self).__name__} must define load_checkpoint() to resume from a checkpoint"
        )

    def cleanup(self) -> None:
        """Called when the trial ends."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Switch to another configuration without starting a new process; return True if supported."""
        return False

    def log_result(self, result: dict[str, Any]) -> None:
        """Called with each result."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> PlacementGroupFactory | None:
        """Return the resources of a trial with a configuration; None for one CPU."""
        return None

    @classmethod
    def resource_help(cls, config: dict[str, Any]) -> str:
        """Advice for invalid resource requests."""
        return ""

    # -- called by Tune

    def train(self) -> dict[str, Any]:
        """Run one step, and return its metrics with the automatic ones: iteration, times, process."""
        started = time.monotonic()
        result = self.step()
        if not isinstance(result, dict):
            raise AssertionError(
                f"{type(self).__name__}.step() needs to return a dict of metrics, not {type(result).__name__}: "
                f"{result!r:.80}"
            )
        result = dict(result)
        took = result.get("time_this_iter_s") or time.monotonic() - started
        self._iteration += 1
        self._since_restore += 1
        self._time_total += took
        self._time_since_restore += took
        self._auto_fill(result, took)
        self.log_result(result)
        self._last_result = result
        return result

    def _auto_fill(self, result: dict[str, Any], took: float) -> None:
        result.setdefault("done", False)
        if result.get("timesteps_this_iter") is not None:
            self._timesteps_total = (self._timesteps_total or 0) + result["timesteps_this_iter"]
        if result.get("episodes_this_iter") is not None:
            self._episodes_total = (self._episodes_total or 0) + result["episodes_this_iter"]
        if self._timesteps_total is not None:
            result.setdefault("timesteps_total", self._timesteps_total)
        if self._episodes_total is not None:
            result.setdefault("episodes_total", self._episodes_total)
        result.setdefault("training_iteration", self._iteration)
        result.update(self.get_auto_filled_metrics(time_this_iter=took, timestamp=result.get("timestamp")))

    def get_auto_filled_metrics(
        self,
        now: datetime | None = None,
        time_this_iter: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,
    ) -> dict[str, Any]:
        """Return the metrics added to each result."""
        now = now or datetime.now()
        found: dict[str, Any] = {
            "trial_id": self.trial_id,
            "date": f"{now:%Y-%m-%d_%H-%M-%S}",
            "timestamp": timestamp or int(now.timestamp()),
        }
        if time_this_iter is not None:
            found["time_this_iter_s"] = time_this_iter
        if not debug_metrics_only:
            found["time_total_s"] = self._time_total
        found.update(where_am_i())
        found["config"] = self.config
        if not debug_metrics_only:
            found["time_since_restore"] = self._time_since_restore
            found["iterations_since_restore"] = self._since_restore
        return found

    def train_buffered(self, buffer_time_s: float, max_buffer_length: int = 1000) -> list[dict[str, Any]]:
        """Run steps for a number of seconds, up to a number of steps."""
        until = time.monotonic() + buffer_time_s
        found: list[dict[str, Any]] = []
        while len(found) < max_buffer_length:
            found.append(self.train())
            if found[-1]["done"] or time.monotonic() >= until:
                break
        return found

    def save(self, checkpoint_dir: str | None = None) -> SavedCheckpoint:
        """Save to a folder, a new one if none is given.

        Returns:
            A `Checkpoint`; it also has itself as `checkpoint`, and the last result as `metrics`.

        Raises:
            ValueError: `save_checkpoint` returned the path of another folder.
        """
        folder = checkpoint_dir or tempfile.mkdtemp(prefix="checkpoint_")
        os.makedirs(folder, exist_ok=True)
        found: Any = self.save_checkpoint(folder)
        if isinstance(found, dict):
            with open(os.path.join(folder, DICT_CHECKPOINT), "wb") as file:
                pickle.dump(found, file)
        elif isinstance(found, str) and os.path.abspath(found) != os.path.abspath(folder):
            raise ValueError(
                f"The returned checkpoint path from `save_checkpoint` must be None or the same as the provided path argument: "
                f"{type(self).__name__} returned {found!r:.80} for {folder!r}"
            )
        checkpoint = Checkpoint.from_directory(folder)
        with open(os.path.join(folder, _STATE), "wb") as file:
            pickle.dump(self._progress(), file)
        self.latest_checkpoint = checkpoint
        return SavedCheckpoint(checkpoint, self._last_result)

    def restore(self, checkpoint_path: Any) -> None:
        """Resume from a saved state.

        Raises:
            ValueError: nothing is saved at that path.
        """
        given = checkpoint_path if isinstance(checkpoint_path, Checkpoint) else Checkpoint(checkpoint_path)
        if not files.exists(given._filesystem, given.path):
            raise ValueError(
                "Could not recover from checkpoint as it does not exist on storage anymore: there is nothing at "
                f"{given.path!r}"
            )
        with given.as_directory() as folder:
            state = os.path.join(folder, _STATE)
            if os.path.exists(state):
                with open(state, "rb") as file:
                    found = pickle.load(file)
                self._iteration, self._time_total = found["iteration"], found["time_total"]
                self._timesteps_total = found["timesteps_total"]
                self._episodes_total = found.get("episodes_total")
            as_dict = os.path.join(folder, DICT_CHECKPOINT)
            if os.path.exists(as_dict):
                with open(as_dict, "rb") as file:
                    self.load_checkpoint(pickle.load(file))
            else:
                self.load_checkpoint(folder)
        self._since_restore = 0
        self._time_since_restore = 0.0
        self.latest_checkpoint = given

    def get_state(self) -> dict[str, Any]:
        """The progress of the trial."""
        return self._progress()

    def _progress(self) -> dict[str, Any]:
        # A subclass may have a get_state() of its own, with all that it consists of.
        return {
            "iteration": self._iteration,
            "time_total": self._time_total,
            "timesteps_total": self._timesteps_total,
            "episodes_total": self._episodes_total,
        }

    def reset(self, new_config: dict[str, Any], storage: Any = None) -> bool:
        """Switch to another trial; False if the class does not support it."""
        if not self.reset_config(copy.deepcopy(new_config)):
            return False
        self.config = new_config
        self._begin()
        return True

    def stop(self) -> None:
        """End the trial and clean up."""
        self.cleanup()

    def export_model(self, export_formats: Any, export_dir: str | None = None) -> dict[str, str]:
        """Rejected: save the model with a checkpoint."""
        raise DeprecationWarning("export_model has been removed; save the model in save_checkpoint()")

    # -- queries

    def get_current_ip_pid(self) -> tuple[str, int]:
        """The address of the machine, and the id of the process."""
        found = where_am_i()
        return found["node_ip"], found["pid"]

    def is_actor(self) -> bool:
        """True if this runs as a trial."""
        return session.spec() is not None

    def get_config(self) -> dict[str, Any]:
        """The configuration."""
        return self.config

    def _spec(self) -> TrialSpec | None:
        return session.spec()

    @property
    def logdir(self) -> str:
        """The folder of the trial."""
        spec = self._spec()
        return spec.folder.path if spec else os.getcwd()

    @property
    def trial_name(self) -> str:
        """The name of the trial, "default" outside of one."""
        spec = self._spec()
        return spec.trial_name if spec else "default"

    @property
    def trial_id(self) -> str:
        """The id of the trial, "default" outside of one."""
        spec = self._spec()
        return spec.trial_id if spec else "default"

    @property
    def trial_resources(self) -> Any:
        """The resources of the trial."""
        spec = self._spec()
        return spec.resources if spec else PlacementGroupFactory([{"CPU": 1}])

    @property
    def iteration(self) -> int:
        """The number of steps done."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """The number of steps done."""
        return self._iteration
