"""RLlib: reinforcement learning with one config, many environments, and state that survives.

algorithms/   configurations, training in iterations, checkpoints; PPO, DQN, SAC
env/          environments, runners, rollouts and episodes; flow/ gathers them from runners that may die
connectors/   what is between episodes and modules; callbacks/ what is called at events
core/         modules, their networks and distributions; learners
utils/        metrics, checkpoints, and names that programs import from there

Names are resolved on first use. ``import skate.rllib`` loads neither torch nor gymnasium.
"""

from __future__ import annotations

from skate import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    globals(),
    {
        "skate.rllib.env.multi_agent_env": ("MultiAgentEnv",),
        "skate.rllib.policy.sample_batch": ("SampleBatch",),
    },
    ("algorithms", "callbacks", "connectors", "core", "env", "policy", "utils"),
)
