"""Algorithms and their configurations.

algorithm_config/   the settings of any algorithm
algorithm.py        training in iterations; evaluation.py, acting.py, restoration.py: its parts
ppo/, dqn/, sac/    one algorithm each: settings, training step, module, learner
"""

from __future__ import annotations

from typing import Any

from skate import lazy_loader
from skate.rllib.algorithms import registry

_HOMES = {
    "skate.rllib.algorithms.algorithm": ("Algorithm",),
    "skate.rllib.algorithms.algorithm_config": ("AlgorithmConfig",),
    "skate.rllib.algorithms.dqn.dqn": ("DQN", "DQNConfig"),
    "skate.rllib.algorithms.ppo.ppo": ("PPO", "PPOConfig"),
    "skate.rllib.algorithms.sac.sac": ("SAC", "SACConfig"),
}

_find, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)


def __getattr__(name: str) -> Any:
    message = registry.refused(name)
    if message:
        raise ImportError(message)
    return _find(name)
