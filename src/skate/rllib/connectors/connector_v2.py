"""ConnectorV2: one step on the way from episodes to a batch, or from a module's outputs to actions.

Before batching, a column of a batch is a dict of lists: ``{(episode_id,): [item, ...]}`` with one agent,
``{(episode_id, agent_id, module_id): [item, ...]}`` with many.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from skate.rllib.env.nested import BatchedNdArray, map_nested
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.checkpoints import Checkpointable

if TYPE_CHECKING:
    from typing_extensions import Self


class ConnectorV2(Checkpointable, abc.ABC):
    """One step of a pipeline.

    Args:
        input_observation_space: The space of observations that arrive here.
        input_action_space: The space of actions that arrive here.
        kwargs: For subclasses.
    """

    #: The arguments that this connector was made with.
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments, so that a checkpoint has them whatever a subclass does with them."""
        made = super().__new__(cls)
        made._made_with = args, kwargs
        return made

    def __init__(
        self,
        input_observation_space: gym.Space[Any] | None = None,
        input_action_space: gym.Space[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._observation_space: gym.Space[Any] | None = None
        self._action_space: gym.Space[Any] | None = None
        self._input_observation_space: gym.Space[Any] | None = None
        self._input_action_space: gym.Space[Any] | None = None
        self.input_action_space = input_action_space
        self.input_observation_space = input_observation_space

    @abc.abstractmethod
    def __call__(
        self,
        *,
        rl_module: Any,
        batch: dict[str, Any],
        episodes: list[Any],
        explore: bool | None = None,
        shared_data: dict[str, Any] | None = None,
        metrics: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the batch, changed or not.

        Args:
            rl_module: The module that acts or learns.
            batch: The columns so far.
            episodes: The episodes they come from.
            explore: True while exploring.
            shared_data: A dict that the steps of one pass share.
            metrics: A logger.
            kwargs: For later additions.
        """

    def recompute_output_observation_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        """Return the space of observations that leave here; the same as arrive, unless overridden."""
        return self.input_observation_space

    def recompute_output_action_space(
        self, input_observation_space: gym.Space[Any], input_action_space: gym.Space[Any]
    ) -> gym.Space[Any] | None:
        """Return the space of actions that leave here; the same as arrive, unless overridden."""
        return self.input_action_space

    @property
    def observation_space(self) -> gym.Space[Any] | None:
        """The space of observations that leave here."""
        return self._observation_space

    @property
    def action_space(self) -> gym.Space[Any] | None:
        """The space of actions that leave here."""
        return self._action_space

    @property
    def input_observation_space(self) -> gym.Space[Any] | None:
        """The space of observations that arrive here."""
        return self._input_observation_space

    @input_observation_space.setter
    def input_observation_space(self, space: gym.Space[Any] | None) -> None:
        self._input_observation_space = space
        if space is not None:
            self._observation_space = self.recompute_output_observation_space(space, self.input_action_space)  # type: ignore[arg-type]

    @property
    def input_action_space(self) -> gym.Space[Any] | None:
        """The space of actions that arrive here."""
        return self._input_action_space

    @input_action_space.setter
    def input_action_space(self, space: gym.Space[Any] | None) -> None:
        self._input_action_space = space
        if space is not None:
            self._action_space = self.recompute_output_action_space(self.input_observation_space, space)  # type: ignore[arg-type]

    @staticmethod
    def single_agent_episode_iterator(
        episodes: list[Any],
        agents_that_stepped_only: bool = True,
        zip_with_batch_column: list[Any] | dict[Any, Any] | None = None,
    ) -> Iterator[Any]:
        """Yield each single agent's episode, also those inside episodes of many agents.

        Args:
            episodes: Episodes of one agent or of many.
            agents_that_stepped_only: True to leave out agents that had no part in the last step.
            zip_with_batch_column: A column of the batch; yields pairs of episode and item then.

        Raises:
            ValueError: The column does not go with the episodes.
        """
        taken: dict[Any, int] = {}
        found: list[Any] = []
        for episode in episodes:
            if isinstance(episode, SingleAgentEpisode):
                found.append(episode)
                continue
            agents = episode.newest_agents() if agents_that_stepped_only else episode.agent_ids
            found.extend(episode.agent_episodes[agent] for agent in agents)
        if zip_with_batch_column is None:
            yield from found
            return
        for place, episode in enumerate(found):
            if isinstance(zip_with_batch_column, list):
                items, at = zip_with_batch_column, place
            else:
                key = key_of(episode)
                items, at = zip_with_batch_column.get(key, []), taken.get(key, 0)
                taken[key] = at + 1
            if at >= len(items):
                raise ValueError(
                    f"zip_with_batch_column has no item number {at} for {episode}; it needs one per episode"
                )
            yield episode, items[at]

    @staticmethod
    def add_batch_item(
        batch: dict[str, Any], column: str, item_to_add: Any, single_agent_episode: Any = None
    ) -> None:
        """Add one item to a column.

        Args:
            batch: The batch, which is changed.
            column: Name of the column.
            item_to_add: The item, without a batch dimension.
            single_agent_episode: The episode that it comes from; None to add it to a plain list.
        """
        if single_agent_episode is None:
            batch.setdefault(column, []).append(item_to_add)
            return
        if single_agent_episode.module_id is not None and single_agent_episode.module_id in batch:
            raise ValueError(
                f"the batch is by module already ({sorted(batch)}); add items before AgentToModuleMapping runs"
            )
        batch.setdefault(column, {}).setdefault(key_of(single_agent_episode), []).append(item_to_add)

    @staticmethod
    def add_n_batch_items(
        batch: dict[str, Any],
        column: str,
        items_to_add: Any,
        num_items: int,
        single_agent_episode: Any = None,
    ) -> None:
        """Add several items to a column.

        Args:
            batch: The batch, which is changed.
            column: Name of the column.
            items_to_add: A list of items, or nested arrays with a batch dimension.
            num_items: Number of items.
            single_agent_episode: The episode that they come from; None to add them to a plain list.

        Raises:
            ValueError: The list has another number of items.
        """
        if not isinstance(items_to_add, list):
            tagged = map_nested(BatchedNdArray, items_to_add)
            ConnectorV2.add_batch_item(batch, column, tagged, single_agent_episode)
            return
        if len(items_to_add) != num_items:
            raise ValueError(
                f"num_items={num_items}, but {len(items_to_add)} items were given for column {column!r}"
            )
        for item in items_to_add:
            ConnectorV2.add_batch_item(batch, column, item, single_agent_episode)

    @staticmethod
    def foreach_batch_item_change_in_place(
        batch: dict[str, Any], column: str | Sequence[str], func: Callable[[Any, Any, Any, Any], Any]
    ) -> None:
        """Replace each item of a column, or of several columns at once.

        Args:
            batch: The batch, which is changed.
            column: Name or names.
            func: Takes the item (a tuple of items for several columns) and the ids of episode, agent and module;
                returns the new item (a tuple of them).

        Raises:
            ValueError: The batch has no such column.
        """
        single = isinstance(column, str)
        names = [column] if isinstance(column, str) else list(column)
        missing = [name for name in names if name not in batch]
        if missing:
            raise ValueError(f"the batch has no columns {missing}; there are {sorted(batch)}")
        columns = [batch[name] for name in names]
        keys: list[Any] = [None] if isinstance(columns[0], list) else list(columns[0])
        for key in keys:
            lists = columns if key is None else [each[key] for each in columns]
            ids = (None, None, None) if key is None else (*key, None, None)[:3]
            for place, items in enumerate(zip(*lists, strict=True)):
                changed = func(items[0] if single else items, *ids)
                for items_of_column, new in zip(lists, (changed,) if single else changed, strict=True):
                    items_of_column[place] = new

    @staticmethod
    def switch_batch_from_column_to_module_ids(batch: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return ``{column: {module: data}}`` as ``{module: {column: data}}``."""
        by_module: dict[str, dict[str, Any]] = {}
        for column, data in batch.items():
            for module_id, each in data.items():
                by_module.setdefault(module_id, {})[column] = each
        return by_module

    def get_state(
        self, components: Any = None, *, not_components: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Return the state of this step; empty unless overridden."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Continue from the given state."""

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments that this connector was made with."""
        return self._made_with

    def reset_state(self) -> None:  # noqa: B027
        """Begin anew."""

    def merge_states(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return one state from those of several runners."""
        return {}

    def __str__(self, indentation: int = 0) -> str:
        return " " * indentation + type(self).__name__


def key_of(episode: Any) -> tuple[Any, ...]:
    """Return the key of an episode's items in a column."""
    if episode.agent_id is not None:
        return episode.multi_agent_episode_id, episode.agent_id, episode.module_id
    return (episode.id_,)
