"""Reports of LightGBM's rounds to the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from lightgbm import Booster

from skate.train.boosting_rounds import RoundReports
from skate.train.checkpoint import Checkpoint

#: LightGBM's aliases of one parameter.
_LEARNER = ("tree_learner", "tree", "tree_type", "tree_learner_type")


class RayTrainReportCallback(RoundReports):
    """Reports the metrics of every round, and the model when it is due; pass it to `lightgbm.train(callbacks=[...])`.

    Args are those of `RoundReports`. Metrics are named after the evaluation set and the metric, such as
    "train-binary_logloss"; cross validation appends "-mean" and "-stdv".
    """

    CHECKPOINT_NAME = "model.txt"

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
            return Booster(model_file=path)

    def __call__(self, env: Any) -> None:
        """Called by LightGBM after each round.

        Raises:
            ValueError: the workers are connected, but each builds a separate model.
        """
        learner = next((env.params[name] for name in _LEARNER if name in env.params), "serial")
        if env.params.get("num_machines", 1) > 1 and learner == "serial":
            raise ValueError(
                "tree_learner is serial, so every worker builds a model from its own part of the rows; add "
                '"tree_learner": "data" and "pre_partition": True to the parameters'
            )
        found: dict[str, Any] = {}
        for entry in env.evaluation_result_list or ():
            name = f"{entry[0]}-{entry[1]}"
            if len(entry) > 4:
                found[f"{name}-mean"], found[f"{name}-stdv"] = entry[2], entry[4]
            else:
                found[name] = entry[2]
        last = env.iteration == env.end_iteration - 1
        keep = self._due(env.iteration) or (last and self._checkpoint_at_end)
        self._report(found, env.model.save_model if keep else None)
