"""What a module declares that it can do, for the learners that need it."""

from __future__ import annotations

from skate.rllib.core.rl_module.apis.inference_only_api import InferenceOnlyAPI
from skate.rllib.core.rl_module.apis.q_net_api import QNetAPI
from skate.rllib.core.rl_module.apis.self_supervised_loss_api import SelfSupervisedLossAPI
from skate.rllib.core.rl_module.apis.target_network_api import (
    TARGET_NETWORK_ACTION_DIST_INPUTS,
    TargetNetworkAPI,
)
from skate.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI

__all__ = [
    "TARGET_NETWORK_ACTION_DIST_INPUTS",
    "InferenceOnlyAPI",
    "QNetAPI",
    "SelfSupervisedLossAPI",
    "TargetNetworkAPI",
    "ValueFunctionAPI",
]
