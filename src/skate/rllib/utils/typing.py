"""Names of types that programs annotate their environments, modules and learners with."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import gymnasium as gym
    import numpy as np
    import torch

    from skate.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from skate.rllib.core.rl_module.rl_module import RLModuleSpec
    from skate.rllib.env.env_context import EnvContext
    from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
    from skate.rllib.env.single_agent_episode import SingleAgentEpisode

# Unions of names in quotes: programs look these up without torch and gymnasium being loaded.
AgentID = Hashable
ModuleID = PolicyID = str
EpisodeID = EnvID = int | str
AlgorithmConfigDict = PartialAlgorithmConfigDict = ModelConfigDict = EnvConfigDict = dict
EnvInfoDict = ResultDict = dict
EnvObsType = EnvActionType = EnvType = Any
EnvCreator = Callable[["EnvContext"], Any]
EpisodeType = Union["SingleAgentEpisode", "MultiAgentEpisode"]
AgentToModuleMappingFn = Callable[[Hashable, Any], str]
ShouldModuleBeUpdatedFn = set[str] | list[str] | Callable[[str, Any], bool]
MultiAgentDict = dict[Hashable, Any]
MultiEnvDict = dict[int | str, dict[Hashable, Any]]

TensorType = Union["np.ndarray[Any, Any]", "torch.Tensor"]
TensorStructType = Union["np.ndarray[Any, Any]", "torch.Tensor", dict[Any, Any], tuple[Any, ...]]
TensorShape = tuple[int, ...] | list[int]
SpaceStruct = Union["gym.Space[Any]", dict[Any, Any], tuple[Any, ...]]
DeviceType = Union[str, int, "torch.device"]
RLModuleSpecType = Union["RLModuleSpec", "MultiRLModuleSpec"]
StateDict = dict[str, Any]

# Modules, optimizers and tensors of torch.
NetworkType = Optimizer = LocalOptimizer = Param = Any
ParamRef = Hashable
ParamDict = dict[Hashable, Any]
ParamList = list[Any]
NamedParamDict = dict[str, Any]
LearningRateOrSchedule = float | list[list[float]] | list[tuple[int, float]]
ModelWeights = ModelInputDict = GradInfoDict = LearnerStatsDict = dict
SampleBatchType = dict[str, Any]
