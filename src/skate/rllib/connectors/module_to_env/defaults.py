"""The default steps from a module's outputs to actions: drawing, arrays, items, bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.connector_v2 import ConnectorV2, key_of
from skate.rllib.connectors.env_to_module.defaults import is_stateful
from skate.rllib.core.columns import Columns
from skate.rllib.env.nested import batch as put_together
from skate.rllib.env.nested import map_nested, unbatch
from skate.rllib.env.sampling.action_plan import ActionPlan
from skate.rllib.env.sampling.action_source import ActionSource


class ModuleToEnvPipeline(ConnectorPipelineV2):
    """The connectors from a module's outputs to actions."""


class GetActions(ConnectorV2):
    """Draws actions from the distribution that a module's outputs stand for, unless it chose actions itself."""

    def __init__(self, **kwargs: Any) -> None:
        self._sources: dict[Any, ActionSource] = {}
        super().__init__(**kwargs)

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        generator = (shared_data or {}).get("generator")
        if Columns.ACTION_DIST_INPUTS in batch or Columns.ACTIONS in batch:
            self._act(rl_module, batch, bool(explore), generator)
        else:
            for module_id, columns in batch.items():
                self._act(rl_module[module_id], columns, bool(explore), generator)
        return batch

    def _act(self, module: Any, columns: dict[str, Any], explore: bool, generator: Any) -> None:
        if Columns.ACTIONS in columns or Columns.ACTION_DIST_INPUTS not in columns:
            return
        source = self._sources.get(module)
        if source is None or source.generator is not generator:
            source = self._sources[module] = ActionSource(module, generator)
        distribution = source.distribution(columns[Columns.ACTION_DIST_INPUTS], explore)
        columns[Columns.ACTIONS] = source.draw(distribution)
        if explore and Columns.ACTION_LOGP not in columns:
            columns[Columns.ACTION_LOGP] = distribution.logp(columns[Columns.ACTIONS])


class TensorToNumpy(ConnectorV2):
    """Turns tensors into arrays."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        return map_nested(lambda leaf: leaf.detach().cpu().numpy() if torch.is_tensor(leaf) else leaf, batch)


class UnBatchToIndividualItems(ConnectorV2):
    """Takes the columns apart into lists of items, by episode."""

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        shared_data: Any = None,
        **kwargs: Any,
    ) -> Any:
        order = (shared_data or {}).get("memorized_map_structure")
        if order is not None and not (set(batch) - set(order)):
            return {
                module_id: {column: unbatch(data) for column, data in columns.items()}
                for module_id, columns in batch.items()
            }
        keys = [key_of(episode) for episode in episodes]
        return {
            column: {key: [item] for key, item in zip(keys, unbatch(data), strict=True)}
            for column, data in batch.items()
        }


class ModuleToAgentUnmapping(ConnectorV2):
    """Sorts the items of modules by the agent that they are for."""

    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        shared_data: Any = None,
        **kwargs: Any,
    ) -> Any:
        order = (shared_data or {})["memorized_map_structure"]
        by_agent: dict[str, dict[Any, list[Any]]] = {}
        for module_id, columns in batch.items():
            for column, items in columns.items():
                for key, item in zip(order[module_id], items, strict=True):
                    by_agent.setdefault(column, {}).setdefault(key, []).append(item)
        return by_agent


class RemoveSingleTsTimeRankFromBatch(ConnectorV2):
    """Removes the time dimension of one step from the outputs of modules with a memory."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if rl_module is None or not is_stateful(rl_module):
            return batch

        def first(item: Any, episode_id: Any, agent_id: Any, module_id: Any) -> Any:
            module = rl_module if module_id is None else rl_module[module_id]
            if not module.is_stateful():
                return item
            return map_nested(lambda leaf: np.squeeze(leaf, axis=0), item)

        for column in batch:
            if column != Columns.STATE_OUT:
                self.foreach_batch_item_change_in_place(batch, column, first)
        return batch


class NormalizeAndClipActions(ConnectorV2):
    """Makes the actions for the environment: scaled to the bounds, or clipped to them.

    Args:
        normalize_actions: True if modules act in [-1, 1].
        clip_actions: True to clip actions that are not normalized.
    """

    def __init__(self, *, normalize_actions: bool = True, clip_actions: bool = False, **kwargs: Any) -> None:
        self.normalize_actions = normalize_actions
        self.clip_actions = clip_actions
        # By the identity of the space, which is kept with the plan so that no other space gets it.
        self._plans: dict[int, ActionPlan] = {}
        super().__init__(**kwargs)

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        if Columns.ACTIONS not in batch or self.action_space is None:
            return batch
        space: Any = self.action_space
        by_agent = isinstance(batch[Columns.ACTIONS], dict) and any(
            len(key) == 3 for key in batch[Columns.ACTIONS]
        )
        for_env = {}
        for key, items in batch[Columns.ACTIONS].items():
            own = space[key[1]] if by_agent else space
            for_env[key] = [self.for_env(item, own) for item in items]
        batch[Columns.ACTIONS_FOR_ENV] = for_env
        return batch

    def for_env(self, action: Any, space: Any) -> Any:
        """Return an action of a space, or a batch of them if it is no nested one, as environments take it."""
        if hasattr(space, "spaces"):
            pairs = space.spaces.items() if isinstance(space.spaces, dict) else enumerate(space.spaces)
            made = {key: self.for_env(action[key], inner) for key, inner in pairs}
            return tuple(made.values()) if isinstance(action, tuple) else made
        plan = self._plans.get(id(space))
        if plan is None:
            plan = self._plans[id(space)] = ActionPlan(space, self.normalize_actions, self.clip_actions)
        return plan.for_env(action)


class ListifyDataForVectorEnv(ConnectorV2):
    """Makes plain lists of the columns, one item per environment; by agent if there are many."""

    def __call__(self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], **kwargs: Any) -> Any:
        for column, by_key in batch.items():
            if any(len(key) == 3 for key in by_key):
                rows: list[dict[Any, Any]] = [{} for _ in episodes]
                places = {episode.id_: place for place, episode in enumerate(episodes)}
                for key, items in by_key.items():
                    rows[places[key[0]]][key[1]] = items[0]
                batch[column] = rows
            else:
                batch[column] = [item for items in by_key.values() for item in items]
        return batch


def stacked(items: list[Any]) -> Any:
    """Return a list of actions as a vector of environments takes them."""
    return put_together(items)
