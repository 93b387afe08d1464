"""Where loggers write the files of a trial, or of a run."""

from __future__ import annotations

import os

from skate.air.trial import LoggableTrial


def trial_folder(trial: LoggableTrial) -> str | None:
    """The folder on this machine for a trial's files, made if it is not there; None if it has none here."""
    folder = getattr(trial, "folder", None)  # of a trial of Tune; a run of Train has its own or a passing one
    if folder is not None and not folder.local and getattr(trial, "log_folder", None) is None:
        return None
    found: str | None = trial.local_path
    if found is not None:
        os.makedirs(found, exist_ok=True)
    return found
