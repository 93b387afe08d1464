"""Results as events for TensorBoard."""

from __future__ import annotations

import math
from typing import Any

from skate.air.flat import flat, numbers
from skate.air.logged_run import LoggedRun
from skate.air.logger_callback import LoggerCallback
from skate.air.required import MissingPackageError, required
from skate.air.trial_folder import trial_folder

_BESIDE_METRICS = ("config", "pid", "timestamp", "time_total_s", "training_iteration")


class TBXLoggerCallback(LoggerCallback):
    """Writes events for TensorBoard: `tensorboard --logdir` the storage path.

    Numbers become scalars, lists of numbers histograms, arrays of five axes (N, T, C, H, W) videos, of three (C, H, W) images.
    The step is `timesteps_total` if that is reported, else the number of the report. The settings go in with the last result.

    Raises:
        ImportError: neither tensorboardX nor torch with tensorboard is installed.
    """

    def __init__(self) -> None:
        self._writer_class = _writer_class()
        self._writers: dict[Any, Any] = {}
        self._last: dict[Any, dict[str, float]] = {}

    def log_trial_start(self, trial: Any) -> None:
        """Begin a file of events."""
        if trial in self._writers:
            self._writers.pop(trial).close()
        folder = trial_folder(trial)
        if folder is not None:
            self._writers[trial] = self._writer_class(folder, flush_secs=30)

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Add what can be drawn."""
        if trial not in self._writers:
            self.log_trial_start(trial)
        writer = self._writers.get(trial)
        if writer is None:
            return
        step = result.get("timesteps_total") or result.get("training_iteration", iteration)
        values = {name: value for name, value in result.items() if name not in _BESIDE_METRICS}
        found = {_tag(trial, name): value for name, value in numbers(values).items()}
        for tag, value in found.items():
            writer.add_scalar(tag, value, global_step=step)
        self._last[trial] = {tag: value for tag, value in found.items() if math.isfinite(value)}
        for name, value in flat(values).items():
            _add_shaped(writer, _tag(trial, name), value, step)
        writer.flush()

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Add the settings, and end the file."""
        writer = self._writers.pop(trial, None)
        last = self._last.pop(trial, {})
        if writer is None:
            return
        settings = {
            name: value if isinstance(value, bool | int | float | str) else repr(value)
            for name, value in flat(getattr(trial, "evaluated_params", None) or {}).items()
            if value is not None and not callable(value)
        }
        if settings and last:
            _add_settings(writer, settings, last)
        writer.close()


def _tag(trial: Any, name: str) -> str:
    # What dashboards made for Ray look for; a run of Train has no trials beside it.
    return name if isinstance(trial, LoggedRun) else f"ray/tune/{name}"


def _add_shaped(writer: Any, tag: str, value: Any, step: int) -> None:
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) == 5:
        writer.add_video(tag, value, global_step=step, fps=20)
    elif shape is not None and len(shape) == 3:
        writer.add_image(tag, value, global_step=step)
    elif (isinstance(value, list) and value) or (shape is not None and len(shape) == 1 and shape[0]):
        import numpy as np  # whoever has arrays of values has it

        try:
            writer.add_histogram(tag, np.asarray(value, dtype=float), global_step=step)
        except (TypeError, ValueError):  # a list of something else
            return


def _add_settings(writer: Any, settings: dict[str, Any], last: dict[str, float]) -> None:
    """The settings go into the same file; the writers' own `add_hparams` begins a folder of its own."""
    kind = type(writer).__module__.split(".")[0]
    home = "torch.utils.tensorboard.summary" if kind == "torch" else "tensorboardX.summary"
    made = required(home, "settings in TensorBoard").hparams(settings, last)
    for summary in made:
        writer.file_writer.add_summary(summary)


def _writer_class() -> Any:
    try:
        return required("tensorboardX", "TBXLoggerCallback").SummaryWriter
    except MissingPackageError:
        try:
            return required("torch.utils.tensorboard", "TBXLoggerCallback", "torch tensorboard").SummaryWriter
        except ImportError as second:
            raise MissingPackageError(
                "TBXLoggerCallback needs tensorboardX, or torch with tensorboard, and neither is installed: "
                "pip install tensorboardX",
                name="tensorboardX",
            ) from second
