"""Reports of XGBoost's rounds to the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from xgboost import Booster
from xgboost.callback import TrainingCallback

from skate.train.boosting_rounds import RoundReports
from skate.train.checkpoint import Checkpoint


class RayTrainReportCallback(RoundReports, TrainingCallback):
    """Reports the metrics of every round, and the model when it is due; pass it to `xgboost.train(callbacks=[...])`.

    Args are those of `RoundReports`. Metrics are named after the evaluation set and the metric, such as
    "train-logloss".
    """

    CHECKPOINT_NAME = "model.ubj"
    _kept = -1
    _last: dict[str, Any] | None = None

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        filename: str = CHECKPOINT_NAME,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(metrics, filename, frequency, checkpoint_at_end, results_postprocessing_fn)

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Booster:
        """Load the model from a checkpoint.

        Raises:
            FileNotFoundError: the checkpoint has no such file.
        """
        with checkpoint.as_directory() as folder:
            path = os.path.join(folder, filename)
            if not os.path.exists(path):
                raise FileNotFoundError(f"{checkpoint} has no file {filename!r}; it has {os.listdir(folder)}")
            booster = Booster()
            booster.load_model(path)
            return booster

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Record metrics after a round, and report a model if due; returns False so that training continues."""
        self._last = {
            f"{name}-{metric}": values[-1]
            for name, metrics in evals_log.items()
            for metric, values in metrics.items()
        }
        due = self._due(epoch)
        if due:
            self._kept = model.num_boosted_rounds()
        self._report(self._last, model.save_model if due else None)
        return False

    def after_training(self, model: Any) -> Any:
        """Called by XGBoost after the last round."""
        if self._checkpoint_at_end and self._kept != model.num_boosted_rounds():
            self._report(self._last or {}, model.save_model)
        return model
