"""LearnerConnectorPipeline: the connectors from episodes to the batches of a learner's modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from skate.rllib.connectors.connector_pipeline_v2 import ConnectorPipelineV2
from skate.rllib.connectors.default_pipelines import custom
from skate.rllib.connectors.env_to_module.defaults import (
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    AgentToModuleMapping,
    BatchIndividualItems,
    NumpyToTensor,
)
from skate.rllib.connectors.learner.add_columns_from_episodes_to_train_batch import (
    AddColumnsFromEpisodesToTrainBatch,
)
from skate.rllib.core.columns import Columns
from skate.rllib.core.learner.batches import select
from skate.rllib.env.single_agent_episode import SingleAgentEpisode


class LearnerConnectorPipeline(ConnectorPipelineV2):
    """The connectors from episodes to the batches of a learner's modules."""


def build_learner_pipeline(
    config: Any, observations: Any = None, actions: Any = None, device: Any = None, own: bool = True
) -> LearnerConnectorPipeline:
    """Return the user's connectors with the default ones after them.

    Args:
        config: The algorithm's config.
        observations: The space of observations.
        actions: The space of actions.
        device: Where tensors go.
        own: False for the default connectors alone.
    """
    found = custom(config, "learner", (observations, actions)) if own else []
    made = LearnerConnectorPipeline(observations, actions, connectors=found)
    if not getattr(config, "add_default_connectors_to_learner_pipeline", True):
        return made
    many = bool(getattr(config, "is_multi_agent", False))
    made.append(AddObservationsFromEpisodesToBatch(as_learner_connector=True))
    made.append(AddColumnsFromEpisodesToTrainBatch())
    made.append(AddTimeDimToBatchAndZeroPad(as_learner_connector=True))
    made.append(AddStatesFromEpisodesToBatch(as_learner_connector=True))
    if many:
        made.append(AgentToModuleMapping(as_learner_connector=True))
    made.append(BatchIndividualItems(multi_agent=many))
    made.append(NumpyToTensor(as_learner_connector=True, device=device))
    return made


def batches_of_episodes(
    pipeline: ConnectorPipelineV2, module: Any, episodes: Sequence[Any], metrics: Any = None
) -> dict[str, dict[str, Any]]:
    """Return the batches that a pipeline makes of episodes, by module id; the episodes stay as they are.

    Rows that the loss mask leaves out are gone, so that minibatches have steps alone. In sequences of modules with
    memory the mask stays.

    Args:
        pipeline: The connectors.
        module: The learner's modules.
        episodes: Episodes of one agent or of many.
        metrics: A logger.
    """
    copies = [copy_of(episode, place) for place, episode in enumerate(episodes) if len(episode)]
    made = pipeline(
        rl_module=module,
        batch={},
        episodes=copies,
        explore=None,
        shared_data={},
        metrics=metrics,
        metrics_prefix_key=("__all_modules__", "learner_connector"),
    )
    return {module_id: without_masked(columns, module[module_id]) for module_id, columns in made.items()}


def without_masked(columns: dict[str, Any], module: Any) -> dict[str, Any]:
    """Return the tensors of a batch, without rows or sequences that the loss mask leaves out."""
    kept = {name: column for name, column in columns.items() if torch.is_tensor(column) or nested(column)}
    mask = kept.get(Columns.LOSS_MASK)
    if mask is None:
        return kept
    if not module.unwrapped().is_stateful():
        del kept[Columns.LOSS_MASK]
    rows = torch.nonzero(mask.reshape(len(mask), -1).any(-1)).reshape(-1)
    return kept if len(rows) == len(mask) else select(kept, rows)


def nested(column: Any) -> bool:
    """True for a dict or a tuple of tensors, or of such dicts and tuples."""
    if not isinstance(column, dict | tuple):
        return False
    parts = column.values() if isinstance(column, dict) else column
    return all(torch.is_tensor(each) or nested(each) for each in parts)


def copy_of(episode: Any, place: int) -> Any:
    """Return an episode that connectors may change.

    Args:
        episode: The episode.
        place: Its place in the list, which makes the ids of several chunks of one episode different.
    """
    if isinstance(episode, SingleAgentEpisode):
        whole = episode.multi_agent_episode_id
        return copy_of_one(episode, f"{episode.id_}_{place}", None if whole is None else f"{whole}_{place}")
    made = episode.shallow_copy()
    made.id_ = f"{episode.id_}_{place}"
    made.agent_episodes = {
        agent_id: copy_of_one(each, f"{each.id_}_{place}", made.id_)
        for agent_id, each in episode.agent_episodes.items()
        if len(each)
    }
    return made


def copy_of_one(episode: SingleAgentEpisode, name: str, whole: str | None = None) -> SingleAgentEpisode:
    """Return an agent's episode with arrays of its own, under a new name."""
    made = episode.slice(slice(None)).to_numpy()
    made.id_ = name
    if whole is not None:
        made.multi_agent_episode_id = whole
    made.custom_data.update(episode.custom_data)
    return made
