"""Replay buffers from the settings of an algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.multi_agent_episode_buffer import MultiAgentEpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.multi_agent_prioritized_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)
from skate.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

_OF_SEVERAL_AGENTS: dict[type[EpisodeReplayBuffer], type[EpisodeReplayBuffer]] = {
    EpisodeReplayBuffer: MultiAgentEpisodeReplayBuffer,
    PrioritizedEpisodeReplayBuffer: MultiAgentPrioritizedEpisodeReplayBuffer,
}
_KINDS = {kind.__name__: kind for kind in (*_OF_SEVERAL_AGENTS, *_OF_SEVERAL_AGENTS.values())}


def make_replay_buffer(config: Any) -> Any:
    """Return the buffer of ``config.replay_buffer_config``.

    With several agents, a buffer of one agent is replaced by its counterpart.

    Args:
        config: A config with ``replay_buffer_config``, a dict with the class or its name under ``"type"`` and with
            arguments of the class, with ``seed`` and ``is_multi_agent``.

    Raises:
        ValueError: the name is unknown, or the buffer is of several agents and there is one.
    """
    settings = dict(config.replay_buffer_config)
    kind = settings.pop("type", "EpisodeReplayBuffer")
    # Read by whoever draws from the buffer.
    settings.pop("beta", None)
    if isinstance(kind, str):
        name = kind.rpartition(".")[2]
        if name not in _KINDS:
            raise ValueError(f"no replay buffer {kind!r}; use {', '.join(_KINDS)}, or a class of your own")
        kind = _KINDS[name]
    if getattr(config, "is_multi_agent", False):
        kind = _OF_SEVERAL_AGENTS.get(kind, kind)
    elif kind in _OF_SEVERAL_AGENTS.values():
        raise ValueError(
            f"{kind.__name__} is for several agents, and `policies` names none; set multi_agent(policies=...), or use "
            f"{kind.__name__.removeprefix('MultiAgent')}"
        )
    seed = getattr(config, "seed", None)
    if seed is not None and issubclass(kind, EpisodeReplayBuffer):
        settings.setdefault("seed", int(np.random.SeedSequence((int(seed), 55)).generate_state(1)[0]))
    return kind(**settings)
