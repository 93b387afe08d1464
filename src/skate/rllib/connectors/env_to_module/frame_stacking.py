"""FrameStacking: the newest observations of an episode as one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from skate.rllib.connectors.env_to_module.observation_preprocessor import PerAgentObservations
from skate.rllib.core.columns import Columns


class FrameStackingEnvToModule(PerAgentObservations):
    """Lays the newest ``num_frames`` observations side by side along their last axis; zeros before the beginning.

    The episodes keep single observations. Fragments of columns hold stacked ones.

    Args:
        input_observation_space: A Box.
        input_action_space: The space of actions.
        num_frames: Number of observations.
        as_learner_connector: True in a learner, where all steps of an episode are stacked.
        kwargs: ``multi_agent=True`` if the spaces are by agent.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        num_frames: int = 1,
        as_learner_connector: bool = False,
        **kwargs: Any,
    ) -> None:
        self.num_frames = num_frames
        self.as_learner_connector = as_learner_connector
        super().__init__(input_observation_space, input_action_space, **kwargs)

    @property
    def num_steps_back(self) -> int:
        """The number of steps that chunks of episodes have to remember."""
        return self.num_frames

    def output_space(
        self, observations: gym.Space[Any], actions: gym.Space[Any] | None, agent_id: Any = None
    ) -> gym.Space[Any]:
        if not isinstance(observations, gym.spaces.Box):
            raise ValueError(
                f"observations of {observations} cannot be stacked; flatten them first, or write a connector"
            )
        low, high = (
            np.concatenate([bound] * self.num_frames, axis=-1)
            for bound in (observations.low, observations.high)
        )
        return gym.spaces.Box(low, high, low.shape, observations.dtype.type)

    def preprocess(self, observation: Any, episode: Any) -> Any:
        frames = episode.get_observations(slice(-self.num_frames, None), fill=0.0)
        return np.concatenate(list(frames), axis=-1)

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if not self.as_learner_connector:
            for episode in self.single_agent_episode_iterator(episodes):
                self.add_batch_item(batch, Columns.OBS, self.preprocess(None, episode), episode)
            return batch
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            size = len(episode)
            if not size:
                continue
            padded = episode.get_observations(
                slice(1 - self.num_frames, size), neg_index_as_lookback=True, fill=0.0
            )
            frames = np.stack([np.asarray(frame) for frame in padded])
            stacked = np.concatenate([frames[at : at + size] for at in range(self.num_frames)], axis=-1)
            self.add_n_batch_items(batch, Columns.OBS, stacked, size, episode)
        return batch


FrameStacking = FrameStackingEnvToModule
