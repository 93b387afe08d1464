"""MultiAgentEpisodeReplayBuffer: the steps of several agents, drawn for each module."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from skate.rllib.env.multi_agent_episode import MultiAgentEpisode
from skate.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer, Lengths
from skate.rllib.utils.replay_buffers.episode_store import columns_of
from skate.rllib.utils.replay_buffers.same_steps import SameSteps

_MODES = ("independent", "synchronized")


class MultiAgentEpisodeReplayBuffer(EpisodeReplayBuffer):
    """Keeps the newest episodes of several agents and draws their steps with equal probabilities, for each module.

    Args:
        capacity: Number of steps of the environment. The oldest episodes are evicted as wholes; the only one stays,
            however long it is. Default 10,000.
        **kwargs: Arguments of :class:`EpisodeReplayBuffer`; ``batch_size_B`` is for each module.

    Raises:
        ValueError: ``capacity`` is less than 1.
    """

    _draws_episodes = True

    def __init__(self, capacity: int = 10_000, **kwargs: Any) -> None:
        super().__init__(capacity, **kwargs)
        self._make_store()

    def get_module_ids(self) -> list[str]:
        """Return the ids of the modules that had steps."""
        return list(self._make_store().pools)

    def get_num_agent_timesteps(self) -> int:
        """Return the number of stored steps of all agents."""
        return sum(self.get_num_timesteps(module_id) for module_id in self.get_module_ids())

    def get_added_agent_timesteps(self) -> int:
        """Return the number of steps of all agents that were ever added."""
        return sum(self.get_added_timesteps(module_id) for module_id in self.get_module_ids())

    def add(self, episodes: Any) -> None:
        """Add episodes of several agents, or fragments of their steps.

        Args:
            episodes: One episode or a list of them; an episode that was cut may be continued by a later part of it. Or
                fragments by module id, as runners sample them.

        Raises:
            TypeError: Something else is given.
        """
        store = self._make_store()
        if isinstance(episodes, Mapping):
            store.add_fragments(episodes)
            return
        given = [episodes] if isinstance(episodes, MultiAgentEpisode) else list(episodes)
        wrong = [type(each).__name__ for each in given if not isinstance(each, MultiAgentEpisode)]
        if wrong:
            raise TypeError(
                f"a replay buffer of several agents takes MultiAgentEpisodes, or fragments by module id, not {wrong}"
            )
        store.add_episodes(given)

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: Lengths = 1,
        gamma: float = 0.99,
        include_infos: bool = False,
        include_extra_model_outputs: bool = False,
        replay_mode: str = "independent",
        modules_to_sample: Collection[str] | None = None,
        **options: Any,
    ) -> Any:
        """Draw steps of the agents of each module.

        Args:
            num_items: Number of rows for each module; in synchronized mode, of steps of the environment.
            batch_size_B: Another name of it.
            batch_length_T: Only 1 is available.
            n_step: Number of steps whose rewards are summed, or the lowest and highest number to draw from.
            gamma: Discount of these rewards.
            include_infos: Add the infos before and after the steps.
            include_extra_model_outputs: Add the outputs of the modules.
            replay_mode: ``"independent"`` draws for each module by itself, ``"synchronized"`` steps of the environment,
                with all agents that acted then.
            modules_to_sample: Ids of the modules. Default: all that have steps.
            options: ``beta`` and ``lookback``, as of :meth:`EpisodeReplayBuffer.sample`; ``sample_episodes=False`` for
                columns by module id; ``to_numpy=True`` for episodes that hold arrays.

        Returns:
            An episode of one step for each row, with ``"weights"`` and ``"n_step"`` among its extra model outputs. In
            synchronized mode columns by module id.

        Raises:
            ValueError: No steps are stored, or an argument is not available.
        """
        if batch_length_T not in (None, 0, 1):
            raise ValueError(
                f"batch_length_T={batch_length_T} is not available; use 1, which draws single steps"
            )
        if replay_mode not in _MODES:
            raise ValueError(f"no replay_mode {replay_mode!r}; use one of {', '.join(_MODES)}")
        store = self._make_store()
        wanted = self._wanted(modules_to_sample)
        count = self._count(num_items, batch_size_B)
        infos, outputs = include_infos, include_extra_model_outputs
        if replay_mode == "synchronized":
            rows = self._same_steps(wanted, self._lengths(n_step, count), gamma)
        else:
            as_episodes = options.get("sample_episodes", True)
            rows = self._rows(wanted, count, n_step, gamma, options.get("beta") or 0.0, as_episodes)
            if as_episodes:
                lookback = options.get("lookback", 1)
                to_numpy = bool(options.get("to_numpy"))
                return list(store.episodes(rows, infos, outputs, to_numpy, lookback if lookback > 1 else 0))
        return {module_id: columns_of(columns, infos, outputs) for module_id, columns in rows.items()}

    def _wanted(self, asked: Collection[str] | None) -> list[str]:
        held = self._make_store().modules()
        missing = [] if asked is None else [module_id for module_id in asked if module_id not in held]
        if held and missing:
            raise ValueError(f"modules_to_sample has {missing}, which have no steps; these have: {held}")
        return held if asked is None else [module_id for module_id in held if module_id in asked]

    def _same_steps(
        self, wanted: list[str], lengths: np.ndarray, gamma: float
    ) -> dict[str, dict[str, np.ndarray]]:
        store = self._make_store()
        drawn = SameSteps(store.book, store.pools, self.rng).draw(lengths, wanted)
        found = {}
        for module_id, (places, own) in drawn.items():
            found[module_id] = store.rows(module_id, places, own, gamma)
            found[module_id]["weights"] = np.ones(len(places), np.float32)
            self._note_drawn(module_id, places)
        return found
