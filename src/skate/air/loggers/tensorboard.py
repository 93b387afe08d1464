"""Results as events for TensorBoard."""

from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any

from skate.air.flat import flat
from skate.air.integrations.training import BESIDE_METRICS
from skate.air.logged_run import LoggedRun
from skate.air.logger_callback import LoggerCallback
from skate.air.loggers.events import EventFile, scalars, settings
from skate.air.trial import LoggableTrial
from skate.air.trial_folder import trial_folder
from skate.installed import MissingPackageError, require


class TBXLoggerCallback(LoggerCallback):
    """Writes events for TensorBoard: run `tensorboard --logdir` on the storage path.

    Numbers become scalars; they and the settings, which are written when a trial ends, need no library. With
    tensorboardX, or with torch and tensorboard, lists and arrays of numbers become histograms, arrays of three
    axes (C, H, W) images, of four several images, of five (N, T, C, H, W) videos. The step is `timesteps_total`
    if reported, else the number of the report.
    """

    def __init__(self) -> None:
        self._files: dict[Any, EventFile] = {}
        self._last: dict[Any, dict[str, float]] = {}

    def log_trial_start(self, trial: LoggableTrial) -> None:
        """Open the file when a trial starts or restarts."""
        self._end(trial)

    def log_trial_result(self, iteration: int, trial: LoggableTrial, result: dict[str, Any]) -> None:
        """Write the values that TensorBoard can show."""
        file = self._files.get(trial)
        if file is None:
            folder = trial_folder(trial)
            if folder is None:
                return
            file = self._files[trial] = EventFile(folder)
        step = int(result.get("timesteps_total") or result.get("training_iteration", iteration))
        # Dashboards made for Ray expect this tag; a run of Train has no other trials.
        above = "" if isinstance(trial, LoggedRun) else "ray/tune/"
        found, shaped = {}, {}
        values = {name: value for name, value in result.items() if name not in BESIDE_METRICS}
        for name, value in flat(values).items():
            number = _number(value)
            if number is None:
                if _has_axes(value):
                    shaped[f"{above}{name}"] = value
            elif not math.isnan(number):
                found[f"{above}{name}"] = number
        file.add(scalars(found), step)
        for tag, value in shaped.items():
            summary = _drawn(tag, value)
            if summary is not None:
                file.add(summary, step)
        file.flush()
        self._last[trial] = found

    def log_trial_end(self, trial: LoggableTrial, failed: bool = False) -> None:
        """Add the settings, and close the file."""
        file, last = self._files.get(trial), self._last.get(trial)
        given = flat(getattr(trial, "evaluated_params", None) or {})
        known = {name: _setting(value) for name, value in given.items() if not callable(value)}
        if file is not None and known and last:
            for summary in settings(known, last):
                file.add(summary)
        self._end(trial)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Close the files of interrupted trials, also if some of them do not fit on the disk."""
        with contextlib.ExitStack() as stack:
            for trial in self._files:
                stack.callback(self._end, trial)

    def _end(self, trial: LoggableTrial) -> None:
        self._last.pop(trial, None)
        file = self._files.pop(trial, None)
        if file is not None:
            file.close()


def _number(value: Any) -> float | None:
    """Convert a value to one number, including scalars of numpy and tensors; None if impossible."""
    if isinstance(value, int | float):
        return value
    if value is None or isinstance(value, str | bytes | list | tuple) or getattr(value, "shape", None):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # a tensor without a value raises the last
        return None


def _setting(value: Any) -> Any:
    return value.item() if getattr(value, "shape", None) == () else value


def _has_axes(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value)
    shape = getattr(value, "shape", None) or ()
    return bool(shape) and all(shape)


def _drawn(tag: str, value: Any) -> bytes | None:
    """Return the summary of an array, None if it cannot be shown."""
    made_by = _library()
    if made_by is None:
        return None
    import numpy as np  # programs with arrays have it

    try:
        array = np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
        if array.ndim == 5:
            summary = made_by.video(tag, array, fps=20)
        elif array.ndim in (3, 4) and not isinstance(value, list):
            summary = made_by.image(tag, array, dataformats="CHW" if array.ndim == 3 else "NCHW")
        else:
            # TensorFlow's bins: each end is a tenth above the previous one
            ends = 1e-12 * 1.1 ** np.arange(775)
            bins = [*-ends[::-1], 0.0, *ends]
            summary = made_by.histogram(tag, array.astype(float), bins)
    except (TypeError, ValueError):  # a list of other values, or of lists of different lengths
        return None
    if summary is None:  # videos need moviepy; the library's error names it
        return None
    contents: bytes = summary.SerializeToString()
    return contents


_warned = False


def _library() -> Any:
    """Return the library that renders arrays; None if none is installed, which is logged once."""
    global _warned
    try:
        require("tensorboardX", "TBXLoggerCallback")
        return require("tensorboardX.summary", "TBXLoggerCallback")
    except MissingPackageError:
        pass
    try:
        return require("torch.utils.tensorboard.summary", "TBXLoggerCallback")
    except ImportError:
        if not _warned:
            _warned = True
            warnings.warn(
                "reported lists and arrays are not logged: TensorBoard could show them, but neither "
                "tensorboardX nor torch with tensorboard is installed; pip install tensorboardX",
                stacklevel=2,
            )
        return None
