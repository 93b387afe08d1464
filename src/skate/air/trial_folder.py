"""The folder for loggers of a trial or a run."""

from __future__ import annotations

import os

from skate.air.trial import LoggableTrial


def trial_folder(trial: LoggableTrial) -> str | None:
    """Return the local folder for a trial's files, creating it if necessary; None if there is none on this
    machine.
    """
    # for a trial of Tune; a run of Train has its own or a temporary one
    folder = getattr(trial, "folder", None)
    if folder is not None and not folder.local and getattr(trial, "log_folder", None) is None:
        return None
    found: str | None = trial.local_path
    if found is not None and not os.path.isdir(found):
        os.makedirs(found, exist_ok=True)
    return found
