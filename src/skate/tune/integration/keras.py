"""Reports of Keras events to a trial."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

from skate.train.tensorflow.checkpoint import TensorflowCheckpoint
from skate.train.tensorflow.keras import ReportCheckpointCallback
from skate.tune.trainable.session import report


class TuneReportCheckpointCallback(ReportCheckpointCallback):
    """Reports Keras logs to the trial, with the model when it is due; pass it to `model.fit(callbacks=[...])`.

    See `ray.train.tensorflow.keras.ReportCheckpointCallback` for the arguments.
    """

    def _happened(self, event: str, logs: Mapping[str, Any] | None) -> None:
        metrics = self._chosen(logs or {})
        if event not in self._checkpoint_on:
            report(metrics)
            return
        checkpoint = TensorflowCheckpoint.from_model(self.model)
        report(metrics, checkpoint=checkpoint)
        shutil.rmtree(checkpoint.path, ignore_errors=True)


class TuneReportCallback:
    """Rejected, as in Ray: `TuneReportCheckpointCallback` reports metrics, and checkpoints only on `checkpoint_on`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> TuneReportCallback:
        """Reject the call.

        Raises:
            DeprecationWarning: always.
        """
        raise DeprecationWarning(
            "ray.tune.integration.keras.TuneReportCallback has been removed; use "
            "TuneReportCheckpointCallback(checkpoint_on=[])"
        )
