"""Connectors that rewrite observations: the newest one of each episode, in the episode itself."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from skate.rllib.connectors.connector_v2 import ConnectorV2


class SingleAgentObservationPreprocessor(ConnectorV2, abc.ABC):
    """Replaces the newest observation of each single agent's episode."""

    @abc.abstractmethod
    def preprocess(self, observation: Any, episode: Any) -> Any:
        """Return the new observation.

        Args:
            observation: The newest observation.
            episode: The episode that it belongs to.
        """

    def preprocess_batch(self, observations: list[Any], episodes: list[Any]) -> Sequence[Any]:
        """Return the new observations of several episodes; one by one, unless overridden.

        Args:
            observations: The newest observation of each episode.
            episodes: The episodes that they belong to, in the same order.
        """
        return [
            self.preprocess(observation=observation, episode=episode)
            for observation, episode in zip(observations, episodes, strict=True)
        ]

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        found = list(self.single_agent_episode_iterator(episodes))
        new = self.preprocess_batch([episode.get_observations(-1) for episode in found], found)
        for episode, observation in zip(found, new, strict=True):
            episode.set_observations(at_indices=-1, new_data=observation)
            episode.observation_space = self.space_of(episode)
        return batch

    def space_of(self, episode: Any) -> gym.Space[Any] | None:
        """Return the space of the new observations of an episode."""
        space = self.observation_space
        if (
            episode.agent_id is not None
            and isinstance(space, gym.spaces.Dict)
            and episode.agent_id in space.spaces
        ):
            return space.spaces[episode.agent_id]
        return space


class MultiAgentObservationPreprocessor(ConnectorV2, abc.ABC):
    """Replaces the newest observations of all agents of each episode at once."""

    @abc.abstractmethod
    def preprocess(self, observations: dict[Any, Any], episode: Any) -> dict[Any, Any]:
        """Return the new observations by agent.

        Args:
            observations: The newest observations by agent.
            episode: The episode that they belong to.
        """

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        for episode in episodes:
            for agent_id, new in self.preprocess(episode.get_observations(-1), episode).items():
                episode.agent_episodes[agent_id].set_observations(at_indices=-1, new_data=new)
        return batch


ObservationPreprocessor = SingleAgentObservationPreprocessor


class PerAgentObservations(SingleAgentObservationPreprocessor):
    """Rewrites observations in the same way for each agent.

    Args:
        input_observation_space: The space of observations that arrive; of all agents by id with ``multi_agent``.
        input_action_space: The space of actions; likewise.
        multi_agent: True if the spaces are by agent.
        kwargs: For subclasses.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        multi_agent: bool = False,
        **kwargs: Any,
    ) -> None:
        self.multi_agent = multi_agent
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        if not self.multi_agent:
            return self.output_space(input_observation_space, input_action_space)
        agents: Any = input_observation_space
        actions: Any = input_action_space
        return gym.spaces.Dict({
            agent_id: self.output_space(space, None if actions is None else actions[agent_id], agent_id)
            for agent_id, space in agents.spaces.items()
        })  # fmt: skip

    @abc.abstractmethod
    def output_space(
        self, observations: gym.Space[Any], actions: gym.Space[Any] | None, agent_id: Any = None
    ) -> gym.Space[Any]:
        """Return the space of one agent's new observations."""
