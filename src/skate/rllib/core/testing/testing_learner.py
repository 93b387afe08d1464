"""A config for tests, whose learner reports the mean weight of each module."""

from __future__ import annotations

from typing import Any

from skate.rllib.algorithms.algorithm_config import AlgorithmConfig
from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from skate.rllib.core.rl_module.rl_module import RLModuleSpec
from skate.rllib.core.testing.mean_weights import BaseTestingLearner
from skate.rllib.core.testing.torch.bc_learner import BCTorchLearner
from skate.rllib.core.testing.torch.bc_module import DiscreteBCTorchModule

__all__ = ["BaseTestingAlgorithmConfig", "BaseTestingLearner"]


class BaseTestingAlgorithmConfig(AlgorithmConfig):
    """A config of the learner and module in ``core.testing.torch``."""

    report_mean_weights: bool = True

    def get_default_learner_class(self) -> Any:
        return BCTorchLearner

    def get_default_rl_module_spec(self) -> Any:
        spec = RLModuleSpec(module_class=DiscreteBCTorchModule, model_config={"fcnet_hiddens": [32]})
        if not self.is_multi_agent:
            return spec
        return MultiRLModuleSpec(
            multi_rl_module_class=MultiRLModule, rl_module_specs={DEFAULT_MODULE_ID: spec}
        )
