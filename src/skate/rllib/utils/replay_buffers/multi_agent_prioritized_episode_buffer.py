"""MultiAgentPrioritizedEpisodeReplayBuffer: the steps of several agents, drawn by the size of their errors."""

from __future__ import annotations

from typing import Any

from skate.rllib.utils.replay_buffers.multi_agent_episode_buffer import MultiAgentEpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.prioritized_episode_buffer import PrioritizedEpisodeReplayBuffer


class MultiAgentPrioritizedEpisodeReplayBuffer(MultiAgentEpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer):
    """Draws steps with large errors more often, for each module by itself (Schaul et al. 2016, arXiv:1511.05952).

    Rows of synchronized mode are drawn with equal probabilities.

    Args:
        capacity: Number of steps of the environment. Default 10,000.
        alpha: 0 draws with equal probabilities, 1 in proportion to the errors. Default 1.0.
        **kwargs: Arguments of :class:`MultiAgentEpisodeReplayBuffer`.

    Raises:
        ValueError: ``alpha`` is negative.
    """

    def __init__(self, capacity: int = 10_000, *, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(capacity, alpha=alpha, **kwargs)
