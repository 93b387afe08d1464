"""Forwards the reports of a Train run to the trial that it runs in."""

from __future__ import annotations

from typing import Any

from skate.train.callback import UserCallback
from skate.tune.trainable import session

CHECKPOINT_PATH_KEY = "checkpoint_path"


class TuneReportCallback(UserCallback):
    """Forwards a trainer's reports to its trial; pass it to the trainer's `RunConfig(callbacks=[...])`.

    Raises:
        RuntimeError: this process does not run a trial.
    """

    def __init__(self) -> None:
        if session.spec() is None:
            raise RuntimeError(
                "TuneReportCallback requires a trainer within a trial of Tune, but this process does not run a trial"
            )

    def after_report(self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any) -> None:
        """Report what rank 0 has reported, with the checkpoint."""
        reported = dict(metrics[0])
        if checkpoint is not None:
            reported[CHECKPOINT_PATH_KEY] = checkpoint.path
        session.report(reported, checkpoint=checkpoint)
