"""A learner for tests, which reports the mean weight of each module."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.core.learner.learner import Learner
from skate.rllib.utils.numpy import convert_to_numpy


class BaseTestingLearner(Learner):
    """Logs the mean weight of each module after an update, which is the same on all learners of a group."""

    def after_gradient_based_update(self, *, timesteps: dict[str, Any]) -> None:
        super().after_gradient_based_update(timesteps=timesteps)
        if not self.config.report_mean_weights:
            return
        for module_id in self.module.keys():  # noqa: SIM118  a MultiRLModule is no dict
            weights = convert_to_numpy(self.get_parameters(self.module[module_id]))
            mean = np.mean([weight.mean() for weight in weights])
            self.metrics.log_value((module_id, "mean_weight"), mean, window=1)
