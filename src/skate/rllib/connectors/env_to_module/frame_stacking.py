"""FrameStacking: the newest observations of an episode as one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from skate.rllib.connectors.env_to_module.observation_preprocessor import PerAgentObservations
from skate.rllib.core.columns import Columns
from skate.rllib.utils.replay_buffers.episode_steps import OBSERVATIONS_BEFORE_LAST

#: The entry of a learner pipeline's shared data with the function that stacks the observations after steps.
STACKED_NEXT_OBSERVATIONS = "stacked_next_observations"


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

    def recompute_output_observation_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        if self.as_learner_connector:
            return (
                input_observation_space  # a learner's space is that of its modules, which is stacked already
            )
        return super().recompute_output_observation_space(input_observation_space, input_action_space)

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
        if (shared := kwargs.get("shared_data")) is not None:
            shared[STACKED_NEXT_OBSERVATIONS] = self.stacked_next_observations
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            if size := len(episode):
                self.add_n_batch_items(batch, Columns.OBS, self._stacked(episode, 0), size, episode)
        return batch

    def stacked_next_observations(self, episode: Any) -> np.ndarray:
        """Return the stacked observations after each step of an episode."""
        before = episode.custom_data.get(OBSERVATIONS_BEFORE_LAST)
        if before is None:
            return self._stacked(episode, 1)
        # The step stands for several; what lies between its two observations is not among its observations.
        last = np.asarray(episode.get_observations(-1))
        frames = [*before, last][-self.num_frames :]
        frames = [np.zeros_like(last)] * (self.num_frames - len(frames)) + frames
        return np.concatenate(frames, axis=-1)[None]

    def _stacked(self, episode: Any, first: int) -> np.ndarray:
        """Return a stack for each step, of its observation or of the next one, as `first` is 0 or 1."""
        size = len(episode)
        padded = episode.get_observations(
            slice(first + 1 - self.num_frames, first + size), neg_index_as_lookback=True, fill=0.0
        )
        frames = np.stack([np.asarray(frame) for frame in padded])
        return np.concatenate([frames[at : at + size] for at in range(self.num_frames)], axis=-1)


FrameStacking = FrameStackingEnvToModule
