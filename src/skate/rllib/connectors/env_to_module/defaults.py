"""The default steps from episodes to the batch of a module: observations, states, batching, tensors."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.connector_v2 import ConnectorV2, key_of
from skate.rllib.core.columns import Columns
from skate.rllib.env.nested import batch as put_together
from skate.rllib.env.nested import map_nested
from skate.rllib.env.space_plan import SpacePlan


class EnvToModulePipeline(ConnectorPipelineV2):
    """The connectors from episodes to the batch of a module."""


class AddObservationsFromEpisodesToBatch(ConnectorV2):
    """Adds the newest observation of each episode, unless a connector before added observations."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if Columns.OBS not in batch:
            for episode in self.single_agent_episode_iterator(episodes):
                self.add_batch_item(batch, Columns.OBS, episode.get_observations(-1), episode)
        return batch


class FlattenForModule(ConnectorV2):
    """Makes one vector of each observation that is no array yet: nested ones, choices, matrices.

    Args:
        flat: False for modules that take nested observations.
        multi_agent: True if the spaces are by agent.
    """

    def __init__(self, flat: bool = True, multi_agent: bool = False, **kwargs: Any) -> None:
        self.flat = flat
        self.multi_agent = multi_agent
        self._plans: dict[Any, SpacePlan] = {}
        super().__init__(**kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        if not self.flat:
            return input_observation_space
        if isinstance(input_observation_space, gym.spaces.Dict) and self.multi_agent:
            spaces = input_observation_space.spaces
            self._plans = {agent_id: SpacePlan(space) for agent_id, space in spaces.items()}
            return gym.spaces.Dict({agent_id: plan.space for agent_id, plan in self._plans.items()})
        plan = self._plans[None] = SpacePlan(input_observation_space)
        return plan.space

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if Columns.OBS not in batch or all(plan.keeps for plan in self._plans.values()):
            return batch

        def flat(item: Any, episode_id: Any, agent_id: Any, module_id: Any) -> Any:
            plan = self._plans[agent_id]
            return item if plan.keeps else plan.row(item)

        self.foreach_batch_item_change_in_place(batch, Columns.OBS, flat)
        return batch


class AddTimeDimToBatchAndZeroPad(ConnectorV2):
    """Adds a time dimension of one step to observations, for modules with a memory."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if rl_module is None or not is_stateful(rl_module):
            return batch
        for column, items in batch.items():
            if column != Columns.STATE_IN and isinstance(items, dict):
                self.foreach_batch_item_change_in_place(
                    batch, column, lambda item, *ids: map_nested(lambda leaf: np.asarray(leaf)[None], item)
                )
        return batch


class AddStatesFromEpisodesToBatch(ConnectorV2):
    """Adds the memory of each episode's module: the newest one, or the initial one at its beginning."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if rl_module is None or not is_stateful(rl_module) or Columns.STATE_IN in batch:
            return batch
        for episode in self.single_agent_episode_iterator(episodes):
            module = rl_module[episode.module_id] if episode.module_id is not None else rl_module
            if not module.is_stateful():
                continue
            held = episode.extra_model_outputs.get(Columns.STATE_OUT)
            has_state = held is not None and held.len_incl_lookback() > 0
            state = held.get(-1) if has_state else map_nested(np.asarray, dict(module.get_initial_state()))
            self.add_batch_item(batch, Columns.STATE_IN, state, episode)
        return batch


class AgentToModuleMapping(ConnectorV2):
    """Sorts the items of agents by the module that acts for them.

    Args:
        rl_module_specs: Ids of the modules, or their specs by id.
        agent_to_module_mapping_fn: Returns the module's id for an agent's id and an episode.
    """

    def __init__(
        self, *, rl_module_specs: Any = None, agent_to_module_mapping_fn: Any = None, **kwargs: Any
    ) -> None:
        self.module_ids = list(rl_module_specs or ())
        self.mapping = agent_to_module_mapping_fn
        super().__init__(**kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        return by_module(input_observation_space, self.module_ids, self.mapping)

    def recompute_output_action_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        return by_module(input_action_space, self.module_ids, self.mapping)

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        shared_data: Any = None,
        **kwargs: Any,
    ) -> Any:
        sorted_items: dict[str, dict[str, Any]] = {}
        order: dict[str, list[Any]] = {}
        for column, by_agent in batch.items():
            for key, items in by_agent.items():
                module_id = key[2]
                sorted_items.setdefault(column, {}).setdefault(module_id, []).extend(items)
                if column == Columns.OBS:
                    order.setdefault(module_id, []).extend([key] * len(items))
        if shared_data is not None:
            shared_data["memorized_map_structure"] = order
        return self.switch_batch_from_column_to_module_ids(sorted_items)


def by_module(space: gym.Space[Any], module_ids: list[str], mapping: Any) -> gym.Space[Any]:
    """Return spaces by agent as spaces by module, as far as the mapping takes an agent without its episode."""
    if not isinstance(space, gym.spaces.Dict) or mapping is None:
        return space
    found: dict[str, gym.Space[Any]] = {}
    for agent_id, inner in space.spaces.items():
        try:
            found.setdefault(mapping(agent_id, None), inner)
        except Exception:  # a mapping of the user's may need the episode, which is not known here
            continue
    first = next(iter(space.spaces.values()))
    return gym.spaces.Dict({module_id: found.get(module_id, first) for module_id in module_ids})


class BatchIndividualItems(ConnectorV2):
    """Puts the items of each column together along a batch dimension.

    Args:
        multi_agent: True if the batch is by module.
    """

    def __init__(self, *, multi_agent: bool = False, **kwargs: Any) -> None:
        self.multi_agent = multi_agent
        super().__init__(**kwargs)

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        shared_data: Any = None,
        **kwargs: Any,
    ) -> Any:
        if self.multi_agent:
            return {module_id: self._columns(columns) for module_id, columns in batch.items()}
        if shared_data is not None and isinstance(batch.get(Columns.OBS), dict):
            shared_data["keys_of_rows"] = [key_of(episode) for episode in episodes]
        return self._columns(batch)

    @staticmethod
    def _columns(columns: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for column, data in columns.items():
            items = [item for each in data.values() for item in each] if is_by_episode(data) else data
            if isinstance(items, list):
                items = put_together(items, individual_items_already_have_batch_dim="auto")
            made[column] = items
        return made


def is_by_episode(data: Any) -> bool:
    """True if a column is a dict of lists by episode."""
    return isinstance(data, dict) and bool(data) and all(isinstance(key, tuple) for key in data)


class NumpyToTensor(ConnectorV2):
    """Turns arrays into tensors; doubles become floats.

    Args:
        device: Where the tensors go.
    """

    def __init__(self, *, device: Any = None, **kwargs: Any) -> None:
        self.device = device
        super().__init__(**kwargs)

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        return map_nested(self._tensor, batch)

    def _tensor(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            return value
        array = value.astype(np.float32) if value.dtype == np.float64 else np.asarray(value)
        return torch.as_tensor(array, device=self.device)


def is_stateful(module: Any) -> bool:
    """True if the module, or one of several, has a memory."""
    return bool(module.is_stateful())
