"""Environments of reinforcement learning: lanes, episodes, runners and groups of runners."""

from __future__ import annotations

from skate import lazy_loader

INPUT_ENV_SPACES = "__env__"
INPUT_ENV_SINGLE_SPACES = "__env_single__"

#: Public names by their modules; loaded on first use.
_HOMES = {
    "skate.rllib.env.env_context": ("EnvContext",),
    "skate.rllib.env.env_runner": ("EnvRunner",),
    "skate.rllib.env.env_runner_group": ("EnvRunnerGroup",),
    "skate.rllib.env.multi_agent_env": ("MultiAgentEnv", "make_multi_agent"),
    "skate.rllib.env.multi_agent_env_runner": ("MultiAgentEnvRunner",),
    "skate.rllib.env.multi_agent_episode": ("MultiAgentEpisode",),
    "skate.rllib.env.single_agent_env_runner": ("SingleAgentEnvRunner",),
    "skate.rllib.env.single_agent_episode": ("SingleAgentEpisode",),
    "skate.rllib.env.wrappers.pettingzoo_env": ("ParallelPettingZooEnv", "PettingZooEnv"),
}

__getattr__, __dir__, __all__ = lazy_loader.attach(globals(), _HOMES)
