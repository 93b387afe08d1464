"""Reports of Keras events to the run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from skate.train.tensorflow.checkpoint import TensorflowCheckpoint
from skate.train.tensorflow.events import Events
from skate.train.worker.report import report
from skate.train.worker.train_context import get_context


class ReportCheckpointCallback(Events, tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Reports Keras logs, with the model when it is due; pass it to `model.fit(callbacks=[...])`.

    Args:
        checkpoint_on: events that report a checkpoint, named without "on_".
        report_metrics_on: events that report metrics; every checkpoint includes them in any case.
        metrics: names of Keras logs; a dict renames them (new name: name); None for all.

    Raises:
        ValueError: there is no such event.
    """

    def __init__(
        self,
        checkpoint_on: str | Sequence[str] = "epoch_end",
        report_metrics_on: str | Sequence[str] = "epoch_end",
        metrics: str | Sequence[str] | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(checkpoint_on, report_metrics_on, metrics)

    def _happened(self, event: str, logs: Mapping[str, Any] | None) -> None:
        metrics = self._chosen(logs or {})
        if event not in self._checkpoint_on:
            report(metrics)
            return
        # on all ranks: saving is a collective operation
        checkpoint = TensorflowCheckpoint.from_model(self.model)
        first = get_context().get_world_rank() == 0
        report(metrics, checkpoint=checkpoint if first else None)
        shutil.rmtree(checkpoint.path, ignore_errors=True)
