"""The import paths of Ray's RLlib lead to Skate's classes."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import skate.compat
skate.compat.install()
import ray
import ray.rllib.algorithms.ppo as module
from ray.rllib.algorithms import PPOConfig, DQNConfig, SACConfig
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ppo import PPO
from ray.rllib.algorithms.ppo.ppo import PPOConfig as again
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID, Columns
from ray.rllib.core.columns import Columns as columns
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.policy.policy import PolicySpec
from ray.rllib import MultiAgentEnv
from ray.rllib.connectors.common.agent_to_module_mapping import AgentToModuleMapping
from ray.rllib.connectors.common.numpy_to_tensor import NumpyToTensor
from ray.rllib.connectors.common.tensor_to_numpy import TensorToNumpy
from ray.rllib.connectors.env_to_module.env_to_module_pipeline import EnvToModulePipeline
from ray.rllib.connectors.module_to_env.get_actions import GetActions
from ray.rllib.connectors.module_to_env.module_to_env_pipeline import ModuleToEnvPipeline
from ray.rllib.connectors.module_to_env.normalize_and_clip_actions import NormalizeAndClipActions
from ray.rllib.core.learner import Learner, LearnerGroup as group
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.env.utils import try_import_pyspiel
from ray.rllib.env.vector.vector_multi_agent_env import VectorMultiAgentEnv
from ray.rllib.models.torch.misc import normc_initializer, same_padding, valid_padding
from ray.rllib.models.utils import get_activation_fn
from ray.rllib.policy.sample_batch import DEFAULT_POLICY_ID, SampleBatch
from ray.rllib.utils.error import EnvError
from ray.rllib.utils.numpy import convert_to_numpy, softmax
from ray.rllib.utils.serialization import convert_numpy_to_python_primitives, gym_space_to_dict
from ray.rllib.utils.spaces.space_utils import batch, flatten_space, unbatch
from ray.rllib.utils.torch_utils import FLOAT_MIN, one_hot
from ray.rllib.utils.typing import AgentID, EpisodeType, ModuleID, NetworkType, ResultDict, TensorType
from ray.rllib.utils.annotations import override
from ray.rllib.utils.framework import try_import_tf, try_import_torch
from ray.rllib.utils.from_config import NotProvided as same
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, EPISODE_RETURN_MEAN
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger
from ray.tune.registry import get_trainable_cls, register_env

assert ray.rllib.algorithms.ppo is module
assert again is PPOConfig and columns is Columns and same is NotProvided and group is LearnerGroup
assert try_import_torch()[0].nn and try_import_tf() == (None, None, None)
assert get_trainable_cls("PPO") is PPO
assert PPO.__module__ == "skate.rllib.algorithms.ppo.ppo"
for name in ("impala", "appo", "bc", "marwil", "cql", "dreamerv3"):
    try:
        exec(f"from ray.rllib.algorithms.{name} import IMPALAConfig")
    except ImportError as error:
        assert "IMPALA is not available" in str(error), error
    else:
        raise AssertionError(name)
for line in (
    "from ray.rllib.offline.offline_data import OfflineData",
    "from ray.rllib.env.external.rllink import RLlink",
    "from ray.rllib.models.torch.torch_modelv2 import TorchModelV2",
    "from ray.rllib.algorithms.dqn.dqn_torch_model import DQNTorchModel",
    "from ray.rllib.env.policy_client import PolicyClient",
    "from ray.rllib.evaluation import RolloutWorker",
    "from ray.rllib.evaluation.rollout_worker import RolloutWorker",
    "from ray.rllib.models.modelv2 import ModelV2",
    "from ray.rllib.models.torch.fcnet import FullyConnectedNetwork",
    "from ray.rllib.policy.torch_policy import TorchPolicy",
    "from ray.rllib.policy.view_requirement import ViewRequirement",
):
    try:
        exec(line)
    except ImportError as error:
        assert "not available" in str(error), error
    else:
        raise AssertionError(line)
try:
    get_trainable_cls("APPO")
except NotImplementedError as error:
    assert "APPO is not available" in str(error)
print("fine")
"""


def test_the_paths_of_ray_lead_here() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert found.stdout.strip() == "fine", found.stderr


def test_rllib_itself_loads_neither_torch_nor_gymnasium() -> None:
    program = "import skate.rllib, sys; sys.exit(sorted({'torch', 'gymnasium'} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
