"""A run of Train in the form of a trial for loggers: with a name, settings and a folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from typing import Any

from skate.train.storage import filesystem as files


class LoggedRun:
    """Presents a run of Train to loggers as a trial.

    Attributes:
        trial_id: the same for a run of the same name and storage, so that a resumed run continues in the same place.
        local_path: a local folder for loggers: the run's own, or a temporary one if the storage is remote.
        checkpoint: the last reported checkpoint.
    """

    def __init__(self, run_context: Any) -> None:
        folder = run_context._folder
        self.config: dict[str, Any] = dict(run_context.train_loop_config or {})
        self.evaluated_params = self.config
        self.trial_name: str = folder.name
        self.experiment_dir_name = folder.name
        self.trial_id = hashlib.sha1(folder.path.encode(), usedforsecurity=False).hexdigest()[:12]
        self.path = folder.path
        self.checkpoint: Any = None
        self._began = time.monotonic()
        self._filesystem = None if folder.local else folder.filesystem
        self.local_path: str = (
            folder.path if self._filesystem is None else tempfile.mkdtemp(prefix="skate-logs-")
        )

    def fetch(self, names: tuple[str, ...]) -> None:
        """Download the files of an earlier run of this name, to append to them."""
        for name in names if self._filesystem is not None else ():
            found = files.read_bytes(self._filesystem, f"{self.path}/{name}")
            if found is not None:
                files.write_bytes(None, os.path.join(self.local_path, name), found)

    def send(self) -> None:
        """Upload the files of the loggers to the run's folder."""
        if self._filesystem is not None and os.listdir(self.local_path):
            files.upload(self.local_path, self._filesystem, self.path)

    def close(self) -> None:
        """Remove a temporary folder."""
        if self._filesystem is not None:
            shutil.rmtree(self.local_path, ignore_errors=True)

    def result(self, metrics: dict[str, Any], number: int) -> dict[str, Any]:
        """Return the report, with number and time as in Tune's results."""
        return {
            **metrics,
            "training_iteration": number,
            "timestamp": int(time.time()),
            "time_total_s": time.monotonic() - self._began,
        }

    def __str__(self) -> str:
        return self.trial_name
