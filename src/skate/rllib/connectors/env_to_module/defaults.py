"""The default steps from episodes to the batch of a module: observations, states, batching, tensors."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.connector_v2 import ConnectorV2, key_of
from skate.rllib.connectors.sequences import padded_pieces
from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.core.columns import Columns
from skate.rllib.core.rl_module.multi_rl_module import MultiRLModule
from skate.rllib.env.nested import BatchedNdArray, map_nested
from skate.rllib.env.nested import batch as put_together
from skate.rllib.env.sampling.space_plan import SpacePlan


class EnvToModulePipeline(ConnectorPipelineV2):
    """The connectors from episodes to the batch of a module."""


class InBothPipelines(ConnectorV2):
    """A connector that takes the newest step on the way to a module, and all steps on the way to a learner.

    Args:
        input_observation_space: The space of observations.
        input_action_space: The space of actions.
        as_learner_connector: True in a learner.
        kwargs: For subclasses.
    """

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        *,
        as_learner_connector: bool = False,
        **kwargs: Any,
    ) -> None:
        self.as_learner_connector = as_learner_connector
        super().__init__(input_observation_space, input_action_space, **kwargs)


class AddObservationsFromEpisodesToBatch(InBothPipelines):
    """Adds the newest observation of each episode, in a learner those before all steps.

    Observations that a connector before added stay.
    """

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if Columns.OBS in batch:
            return batch
        if self.as_learner_connector:
            for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
                size = len(episode)
                seen = episode.get_observations(slice(0, size))
                self.add_n_batch_items(batch, Columns.OBS, seen, size, episode)
            return batch
        for episode in self.single_agent_episode_iterator(episodes):
            self.add_batch_item(batch, Columns.OBS, episode.get_observations(-1), episode)
        return batch


class FlattenForModule(ConnectorV2):
    """Makes one vector of each observation that is no array yet: nested ones, choices, matrices.

    Args:
        flat: False for modules that take nested observations.
        multi_agent: True if the spaces are by agent.
        keep: Ids of modules of a user's own class, which get numbers, matrices and choices as they are.
    """

    def __init__(
        self, flat: bool = True, multi_agent: bool = False, keep: Collection[str] = (), **kwargs: Any
    ) -> None:
        self.flat = flat
        self.multi_agent = multi_agent
        self.keep = frozenset(keep)
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

    @property
    def plan(self) -> SpacePlan | None:
        """How observations of a single agent become vectors; None if there are several agents, or no vectors."""
        return self._plans.get(None)

    @property
    def plans(self) -> dict[Any, SpacePlan]:
        """How observations of each agent become vectors; empty if they do not."""
        return self._plans

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if Columns.OBS not in batch or all(plan.keeps for plan in self._plans.values()):
            return batch

        def flat(item: Any, episode_id: Any, agent_id: Any, module_id: Any) -> Any:
            plan = self._plans[agent_id]
            if plan.keeps or (module_id in self.keep and not is_nested(plan.original)):
                return item
            return plan.row(item)

        self.foreach_batch_item_change_in_place(batch, Columns.OBS, flat)
        return batch

    def spaces_kept(self, mapping: Any) -> dict[str, gym.Space[Any]]:
        """Return the spaces of the modules that get observations as they are.

        Args:
            mapping: Returns the module's id for an agent's id and an episode.
        """
        space = self.input_observation_space
        if not self.keep or not isinstance(space, gym.spaces.Dict):
            return {}
        found = by_module(space, sorted(self.keep), mapping)
        return {name: each for name, each in found.spaces.items() if not is_nested(each)}  # type: ignore[attr-defined]


def is_nested(space: gym.Space[Any]) -> bool:
    """True for spaces of dicts and tuples."""
    return isinstance(space, gym.spaces.Dict | gym.spaces.Tuple)


class AddTimeDimToBatchAndZeroPad(InBothPipelines):
    """Adds a time dimension for modules with a memory: of one step, in a learner of padded sequences with a mask."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if rl_module is None or not is_stateful(rl_module):
            return batch
        if self.as_learner_connector:
            return batch if Columns.STATE_IN in batch else self._sequences(rl_module, batch, episodes)
        for column, items in batch.items():
            if column != Columns.STATE_IN and isinstance(items, dict):
                self.foreach_batch_item_change_in_place(
                    batch, column, lambda item, *ids: map_nested(lambda leaf: np.asarray(leaf)[None], item)
                )
        return batch

    def _sequences(self, rl_module: Any, batch: dict[str, Any], episodes: list[Any]) -> dict[str, Any]:
        found = list(self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False))
        for episode in found:
            size = len(episode)
            if not size or not own_module(rl_module, episode).is_stateful():
                continue
            length = sequence_length(own_module(rl_module, episode))
            if key_of(episode) not in batch.get(Columns.LOSS_MASK, {}):
                self.add_n_batch_items(batch, Columns.LOSS_MASK, np.ones(size, bool), size, episode)
            steps = [min(length, size - start) for start in range(0, size, length)]
            for column, by_episode in batch.items():
                if column not in (Columns.INFOS, Columns.SEQ_LENS) and key_of(episode) in by_episode:
                    rows = put_together(
                        by_episode[key_of(episode)], individual_items_already_have_batch_dim="auto"
                    )
                    by_episode[key_of(episode)] = [map_nested(functools.partial(tagged_pieces, length), rows)]
            self.add_n_batch_items(batch, Columns.SEQ_LENS, np.array(steps), len(steps), episode)
        return batch


class AddStatesFromEpisodesToBatch(InBothPipelines):
    """Adds the memory of each episode's module: the newest one, or the initial one at its beginning.

    In a learner it adds the memory before each sequence.
    """

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if rl_module is None or not is_stateful(rl_module) or Columns.STATE_IN in batch:
            return batch
        if self.as_learner_connector:
            return self._before_sequences(rl_module, batch, episodes)
        for episode in self.single_agent_episode_iterator(episodes):
            module = rl_module[episode.module_id] if episode.module_id is not None else rl_module
            if not module.is_stateful():
                continue
            held = episode.extra_model_outputs.get(Columns.STATE_OUT)
            has_state = held is not None and held.len_incl_lookback() > 0
            state = held.get(-1) if has_state else map_nested(np.asarray, dict(module.get_initial_state()))
            self.add_batch_item(batch, Columns.STATE_IN, state, episode)
        return batch

    def _before_sequences(self, rl_module: Any, batch: dict[str, Any], episodes: list[Any]) -> dict[str, Any]:
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            module = own_module(rl_module, episode)
            if not module.is_stateful():
                continue
            held = episode.extra_model_outputs.get(Columns.STATE_OUT)
            first = map_nested(np.asarray, dict(module.get_initial_state()))
            if episode.t_started and held is not None and held.lookback:
                first = held.get(-1, neg_index_as_lookback=True)
            for start in range(0, len(episode), sequence_length(module)):
                state = first if held is None or not start else held.get(start - 1)
                self.add_batch_item(batch, Columns.STATE_IN, state, episode)
        return batch


def tagged_pieces(length: int, rows: np.ndarray) -> BatchedNdArray:
    """Return padded sequences of the rows of one episode, as a batch."""
    return BatchedNdArray(padded_pieces(rows, length))


def own_module(rl_module: Any, episode: Any) -> Any:
    """Return the module of an episode."""
    if episode.module_id is not None:
        return rl_module[episode.module_id]
    return rl_module[only_module(rl_module)] if isinstance(rl_module, MultiRLModule) else rl_module


def only_module(modules: MultiRLModule) -> str:
    """Return the id of the module that learns from episodes without a module's id."""
    known = list(modules.keys())
    return str(known[0]) if len(known) == 1 else DEFAULT_MODULE_ID


def sequence_length(module: Any) -> int:
    """Return the most steps in a sequence of a module with memory."""
    return max(1, int(module.unwrapped().model_config.get("max_seq_len", 20)))


class AgentToModuleMapping(InBothPipelines):
    """Sorts the items of agents by the module that acts for them.

    Args:
        rl_module_specs: Ids of the modules, or their specs by id.
        agent_to_module_mapping_fn: Returns the module's id for an agent's id and an episode.
        kwargs: ``as_learner_connector`` and spaces.
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
        columns = self._columns(batch)
        return {only_module(rl_module): columns} if isinstance(rl_module, MultiRLModule) else columns

    @staticmethod
    def _columns(columns: dict[str, Any]) -> dict[str, Any]:
        made = {}
        for column, data in columns.items():
            items = [item for each in data.values() for item in each] if is_by_episode(data) else data
            if isinstance(items, list) and column != Columns.INFOS:
                items = put_together(items, individual_items_already_have_batch_dim="auto")
            made[column] = items
        return made


def is_by_episode(data: Any) -> bool:
    """True if a column is a dict of lists by episode."""
    return isinstance(data, dict) and bool(data) and all(isinstance(key, tuple) for key in data)


class NumpyToTensor(InBothPipelines):
    """Turns arrays into tensors; doubles become floats.

    Args:
        device: Where the tensors go.
        pin_memory: Of Ray's; without effect.
        kwargs: ``as_learner_connector`` and spaces.
    """

    def __init__(self, *, device: Any = None, pin_memory: bool = False, **kwargs: Any) -> None:
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
