"""The trainer for XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate.train.boosting_rounds import reject_removed_arguments
from skate.train.checkpoint import Checkpoint
from skate.train.configs import RunConfig, ScalingConfig
from skate.train.data_config import DataConfig
from skate.train.modes import ValidationConfig
from skate.train.trainer import DataParallelTrainer
from skate.train.xgboost.config import XGBoostConfig


class XGBoostTrainer(DataParallelTrainer):
    """Runs a training function that calls `xgboost.train` in several workers, which build one model together.

    Args and errors are those of `DataParallelTrainer`; besides:
        xgboost_config: the network setup. label_column, params, num_boost_round: rejected; the function calls
    `xgboost.train` itself.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        xgboost_config: XGBoostConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: Any = None,
        resume_from_checkpoint: Checkpoint | None = None,
        label_column: Any = None,
        params: Any = None,
        num_boost_round: Any = None,
    ) -> None:
        given = {"label_column": label_column, "params": params, "num_boost_round": num_boost_round}
        reject_removed_arguments("XGBoostTrainer", "xgboost", given)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=xgboost_config or XGBoostConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )

    @classmethod
    def get_model(cls, checkpoint: Checkpoint) -> Any:
        """Return the model in a checkpoint of the callback; the same as `RayTrainReportCallback.get_model`."""
        from skate.train.xgboost.report_callback import RayTrainReportCallback  # loads xgboost

        return RayTrainReportCallback.get_model(checkpoint)
