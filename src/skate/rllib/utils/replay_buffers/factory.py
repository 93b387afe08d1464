"""Replay buffers from the settings of an algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer

_KINDS: dict[str, type[EpisodeReplayBuffer]] = {
    "EpisodeReplayBuffer": EpisodeReplayBuffer,
    "PrioritizedEpisodeReplayBuffer": PrioritizedEpisodeReplayBuffer,
}


def make_replay_buffer(config: Any) -> Any:
    """Return the buffer of ``config.replay_buffer_config``.

    Args:
        config: A config with ``replay_buffer_config``, a dict with the class or its name under ``"type"`` and with
            arguments of the class, and with ``seed``.

    Raises:
        ValueError: the name is unknown.
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
    seed = getattr(config, "seed", None)
    if seed is not None and issubclass(kind, EpisodeReplayBuffer):
        settings.setdefault("seed", int(np.random.SeedSequence((int(seed), 55)).generate_state(1)[0]))
    return kind(**settings)
