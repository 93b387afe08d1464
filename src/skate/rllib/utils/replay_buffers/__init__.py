"""Replay buffers: steps that are sampled again and again."""

from __future__ import annotations

from typing import Any

from skate.rllib.algorithms import not_available
from skate.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.fifo_replay_buffer import FifoReplayBuffer
from skate.rllib.utils.replay_buffers.multi_agent_episode_buffer import MultiAgentEpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.multi_agent_prioritized_episode_buffer import (
    MultiAgentPrioritizedEpisodeReplayBuffer,
)
from skate.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.prioritized_replay_buffer import PrioritizedReplayBuffer
from skate.rllib.utils.replay_buffers.replay_buffer import ReplayBuffer, StorageUnit
from skate.rllib.utils.replay_buffers.reservoir_replay_buffer import ReservoirReplayBuffer

__all__ = [
    "EpisodeReplayBuffer",
    "FifoReplayBuffer",
    "MultiAgentEpisodeReplayBuffer",
    "MultiAgentPrioritizedEpisodeReplayBuffer",
    "PrioritizedEpisodeReplayBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "ReservoirReplayBuffer",
    "StorageUnit",
]


def __getattr__(name: str) -> Any:
    return getattr(not_available, name)
