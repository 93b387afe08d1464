"""Reports of xgboost's rounds to a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.train.xgboost.report_callback import RayTrainReportCallback
from skate.tune.integration.rounds import TrialReports


class TuneReportCheckpointCallback(TrialReports, RayTrainReportCallback):
    """Reports every round to the trial, with the model when it is due; pass it to `xgboost.train(callbacks=[...])`."""


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports the metrics of every round to the trial, without models."""

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        results_postprocessing_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        super().__init__(
            metrics=metrics, checkpoint_at_end=False, results_postprocessing_fn=results_postprocessing_fn
        )
