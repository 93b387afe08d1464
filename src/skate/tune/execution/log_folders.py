"""Log folders of a search with remote storage: loggers write locally, then the files are uploaded."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from skate.air.callback import Callback
from skate.train.storage import filesystem as files

_log = logging.getLogger("skate.tune")
#: The interval in seconds between uploads of running trials' logs.
_SEND_EVERY_S = 30.0


class LogFolders:
    """Temporary log folders of running trials. `before` runs before the loggers, `after` after them.

    Args:
        filesystem: the pyarrow filesystem of the search.
        kept: names of files that loggers append to when a trial resumes.
    """

    def __init__(self, filesystem: Any, kept: Sequence[str]) -> None:
        self.filesystem = filesystem
        self.kept = tuple(kept)
        self.before: Callback = _Before(self)
        self.after: Callback = _After(self)
        self._root = tempfile.mkdtemp(prefix="skate-logs-")
        self._trials: dict[str, Any] = {}

    def open(self, trial: Any) -> None:
        """Create a trial's folder, with the files of its earlier sessions or runs."""
        if trial.log_folder is not None:
            return
        folder = os.path.join(self._root, trial.trial_id)
        os.makedirs(folder)
        for name in self.kept:
            found = files.read_bytes(self.filesystem, f"{trial.path}/{name}")
            if found is not None:
                files.write_bytes(None, os.path.join(folder, name), found)
        trial.log_folder = folder
        self._trials[trial.trial_id] = trial

    def send(self) -> None:
        """Upload the current logs of all trials."""
        for trial in self._trials.values():
            self._send(trial)

    def _send(self, trial: Any) -> None:
        try:
            files.upload(trial.log_folder, self.filesystem, trial.path)
        except OSError as error:
            # The results are in the journal; a failed upload of logs must not end the search.
            _log.warning("the logs of %s could not be uploaded to %s: %s", trial, trial.path, error)

    def close(self, trial: Any) -> None:
        """Upload a trial's logs, and remove its local folder."""
        if self._trials.pop(trial.trial_id, None) is None:
            return
        self._send(trial)
        shutil.rmtree(trial.log_folder, ignore_errors=True)
        trial.log_folder = None

    def close_all(self) -> None:
        """Upload and remove all remaining folders."""
        try:
            for trial in list(self._trials.values()):
                self.close(trial)
        finally:
            shutil.rmtree(self._root, ignore_errors=True)


class _Before(Callback):
    def __init__(self, folders: LogFolders) -> None:
        self._folders = folders

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._folders.open(trial)


class _After(Callback):
    def __init__(self, folders: LogFolders) -> None:
        self._folders = folders
        self._sent = time.monotonic()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        now = time.monotonic()
        if now - self._sent >= _SEND_EVERY_S:
            self._folders.send()
            self._sent = time.monotonic()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._folders.close(trial)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._folders.close(trial)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        self._folders.close_all()
