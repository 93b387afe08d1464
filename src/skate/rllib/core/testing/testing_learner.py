"""A config and a learner for tests, which report the mean weight of each module."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.core.learner.learner import Learner
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from skate.rllib.core.rl_module.rl_module import RLModuleSpec
from skate.rllib.utils.numpy import convert_to_numpy


class BaseTestingAlgorithmConfig(AlgorithmConfig):
    """A config of the learner and module in ``core.testing.torch``."""

    report_mean_weights: bool = True

    def get_default_learner_class(self) -> Any:
        from skate.rllib.core.testing.torch.bc_learner import BCTorchLearner

        return BCTorchLearner

    def get_default_rl_module_spec(self) -> Any:
        from skate.rllib.core.testing.torch.bc_module import DiscreteBCTorchModule

        spec = RLModuleSpec(module_class=DiscreteBCTorchModule, model_config={"fcnet_hiddens": [32]})
        if not self.is_multi_agent:
            return spec
        return MultiRLModuleSpec(
            multi_rl_module_class=MultiRLModule, rl_module_specs={DEFAULT_MODULE_ID: spec}
        )


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
