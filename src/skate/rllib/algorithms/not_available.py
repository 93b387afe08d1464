"""Modules of Ray's RLlib that are not available: importing a name from one says so, and names the nearest thing."""

from __future__ import annotations

from typing import Any

from skate.rllib.algorithms import registry

_OFFLINE = "learning from files is not available; algorithms learn from environments (PPO, DQN, SAC)"
_EXTERNAL = "environments outside of the runners' processes are not available; write a gymnasium.Env whose step() talks to yours"
_META = "learning to learn is not available; the nearest thing is a Learner of your own with compute_loss_for_module()"
_OLD = (
    "policies and models of the old API stack are not available; write an RLModule, and pass it with "
    ".rl_module(rl_module_spec=RLModuleSpec(module_class=...))"
)
_WORKER = (
    "workers of the old API stack are not available; environments are stepped by runners, which "
    "algorithm.env_runner_group has: .env_runners(env_runner_cls=MyRunner) with a subclass of SingleAgentEnvRunner"
)
_OLD_REPLAY = (
    "buffers of policies of the old API stack are not available; use MultiAgentEpisodeReplayBuffer or "
    "MultiAgentPrioritizedEpisodeReplayBuffer, or a ReplayBuffer for each module"
)
#: Names of Ray's that are neither an algorithm nor its configuration.
_NAMES = {
    "BCCatalog": registry.refusal("BC"), "DefaultBCTorchRLModule": registry.refusal("BC"),
    "DifferentiableAlgorithmConfig": _META,
    "DifferentiableLearnerConfig": _META, "TorchDifferentiableLearner": _META, "TorchMetaLearner": _META,
    "TrainingData": _META,
    "EnvRunnerServerForExternalInference": _EXTERNAL, "RLlink": _EXTERNAL, "get_rllink_message": _EXTERNAL,
    "send_rllink_message": _EXTERNAL,
    "OfflineData": _OFFLINE, "OfflinePreLearner": _OFFLINE, "SCHEMA": _OFFLINE,
    "ModelCatalog": _OLD, "TFModelV2": _OLD, "TorchModelV2": _OLD, "TorchPolicyV2": _OLD, "TorchPolicy": _OLD,
    "TorchCategorical": _OLD, "TorchDiagGaussian": _OLD, "TorchMultiActionDistribution": _OLD,
    "TorchMultiCategorical": _OLD, "TorchSquashedGaussian": _OLD, "DQNTorchModel": _OLD, "FullyConnectedNetwork": _OLD,
    "BaseEnv": _WORKER,
    "MultiAgentMixInReplayBuffer": _OLD_REPLAY, "MultiAgentPrioritizedReplayBuffer": _OLD_REPLAY,
    "MultiAgentReplayBuffer": _OLD_REPLAY, "ReplayMode": _OLD_REPLAY,
    "update_priorities_in_replay_buffer": _OLD_REPLAY,
    "ModelV2": _OLD, "RecurrentNetwork": _OLD, "ViewRequirement": _OLD, "build_policy_class": _OLD,
    "PolicyClient": _EXTERNAL, "PolicyServerInput": _EXTERNAL, "RolloutWorker": _WORKER, "WorkerSet": _WORKER,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    message = registry.refused(name)
    if message is None and name in _NAMES:
        message = f"{name} is not available: {_NAMES[name]}" if name not in _NAMES[name] else _NAMES[name]
    if message:
        raise ImportError(message)
    raise AttributeError(f"this part of RLlib has no {name!r}")
