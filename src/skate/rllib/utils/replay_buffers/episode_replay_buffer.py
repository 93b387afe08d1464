"""EpisodeReplayBuffer: steps that are drawn with equal probabilities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.env.single_agent_episode import SingleAgentEpisode
from skate.rllib.utils.metrics import (
    NUM_ENV_STEPS_ADDED,
    NUM_ENV_STEPS_ADDED_LIFETIME,
    NUM_ENV_STEPS_STORED,
    NUM_EPISODES_STORED,
)
from skate.rllib.utils.metrics.metrics_logger import MetricsLogger
from skate.rllib.utils.replay_buffers.episode_book import StoredEpisode
from skate.rllib.utils.replay_buffers.episode_steps import episodes_of
from skate.rllib.utils.replay_buffers.episode_store import EpisodeStore, columns_of
from skate.rllib.utils.replay_buffers.ring import ColumnRing
from skate.rllib.utils.replay_buffers.step_sequences import sequence_episodes, sequences

Lengths = int | Sequence[int] | None
#: How often rows with fewer steps than are to be summed are drawn again.
_TRIES = 100


class EpisodeReplayBuffer:
    """Keeps the newest steps and draws from them with equal probabilities.

    Of fragments, as an algorithm adds them, it drops the oldest steps; of episodes, the oldest as wholes.

    Args:
        capacity: Number of steps. Default 10,000.
        batch_size_B: Number of rows that :meth:`sample` draws by default.
        batch_length_T: Number of steps of the rows that :meth:`sample` draws by default.
        metrics_num_episodes_for_smoothing: Number of values that means of the metrics are of.
        seed: Seed of the draws. Default: another one each time.

    Raises:
        ValueError: ``capacity`` or ``batch_length_T`` is less than 1.
    """

    #: True if :meth:`sample` returns episodes by default, where episodes were added.
    _draws_episodes = False

    def __init__(
        self,
        capacity: int = 10_000,
        *,
        batch_size_B: int = 16,
        batch_length_T: int = 1,
        metrics_num_episodes_for_smoothing: int = 100,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"a replay buffer needs a capacity of at least 1 step, not {capacity}")
        if batch_length_T < 1:
            raise ValueError(f"rows need a batch_length_T of at least 1 step, not {batch_length_T}")
        self.capacity = int(capacity)
        self.batch_size_B, self.batch_length_T = batch_size_B, batch_length_T
        self.metrics = MetricsLogger()
        self._window = metrics_num_episodes_for_smoothing
        #: Fragments are in a ring, episodes in a store; a buffer has one of them.
        self._ring = ColumnRing(0)
        self._store: EpisodeStore | None = None
        #: Rows that were drawn in all; those of several modules together count once.
        self.sampled_timesteps = 0
        #: The source of all draws; it may be replaced.
        self.rng = np.random.default_rng(seed)

    def __len__(self) -> int:
        return self.get_num_timesteps()

    # -- counts

    @property
    def episodes(self) -> list[StoredEpisode]:
        """The stored episodes, the oldest first, each with its ``id_`` and ``env_steps``; empty if fragments are stored."""
        return [] if self._store is None else list(self._store.book)

    def get_num_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of stored steps of the environment; with a module's id, of steps of its agents."""
        if self._store is None:
            return self._ring.size
        if module_id is None:
            return self._store.book.env_steps
        return self._store.pools[module_id].size if module_id in self._store.pools else 0

    def get_added_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of steps that were ever added; as of :meth:`get_num_timesteps`."""
        if self._store is None:
            return self._ring.added
        return self._store.counts.ever(
            "num_module_steps_added" if module_id else "num_env_steps_added", module_id
        )

    def get_sampled_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of rows that were drawn; with a module's id, of its rows."""
        if self._store is None or module_id is None:
            return self.sampled_timesteps
        return self._store.counts.ever("num_module_steps_sampled", module_id)

    def get_num_episodes(self, module_id: str | None = None) -> int:
        """Return the number of stored episodes; with a module's id, of episodes of its agents."""
        if self._store is None:
            return 0
        if module_id is None:
            return len(self._store.book)
        return sum(lane.module_id == module_id for lane in self._store.book.lanes.values())

    def get_num_episodes_evicted(self, module_id: str | None = None) -> int:
        """Return the number of episodes that were evicted; with a module's id, of episodes of its agents."""
        if self._store is None:
            return 0
        name = "num_module_episodes_evicted" if module_id else "num_episodes_evicted"
        return self._store.counts.ever(name, module_id)

    def get_metrics(self) -> dict[str, Any]:
        """Return what was counted since the last call."""
        if self._store is not None:
            self._store.counts.report(self.metrics, self._window)
            self.metrics.log_value(NUM_EPISODES_STORED, len(self._store.book), reduce="mean", window=1)
            self.metrics.log_value(NUM_ENV_STEPS_STORED, len(self), reduce="mean", window=1)
        return self.metrics.reduce()

    # -- steps that come

    def add(self, rollouts: Any) -> None:
        """Add the steps of fragments, or of episodes.

        Args:
            rollouts: One fragment or episode, or a list of them; fragments of one runner always at the same position. An
                episode that was cut may be continued by a later part of it.

        Raises:
            TypeError: Fragments and episodes are mixed, or something else is given.
        """
        is_one = hasattr(rollouts, "valid") or isinstance(rollouts, SingleAgentEpisode)
        given = [rollouts] if is_one else list(rollouts)
        kinds = {type(each).__name__ for each in given if not isinstance(each, SingleAgentEpisode)}
        if not given:
            return
        if not kinds:
            if self._ring.size:
                raise TypeError(
                    "this replay buffer holds fragments, and takes no episodes; make another one for them"
                )
            self._make_store().add_episodes(given)
            return
        if len(kinds) > 1 or not all(hasattr(each, "valid") for each in given) or self._store is not None:
            raise TypeError(
                f"a replay buffer takes fragments or single-agent episodes, and not both; given are {sorted(kinds)}"
            )
        if not self._ring.capacity:
            self._ring = ColumnRing(self.capacity)
        self._added(self._ring.add(given))

    def _make_store(self) -> EpisodeStore:
        if self._store is None:
            self._store = EpisodeStore(self.capacity, self._stored, self._removed)
        return self._store

    def _added(self, places: np.ndarray) -> None:
        """Count steps that were added to the ring."""
        self.metrics.log_value(NUM_ENV_STEPS_ADDED, len(places), reduce="sum")
        self.metrics.log_value(NUM_ENV_STEPS_ADDED_LIFETIME, len(places), reduce="lifetime_sum")
        self.metrics.log_value(NUM_ENV_STEPS_STORED, self._ring.size, reduce="mean", window=1)

    def _stored(self, module_id: str, places: np.ndarray) -> None:
        """Do what new steps in the store ask for."""

    def _removed(self, module_id: str, places: np.ndarray) -> None:
        """Do what steps ask for that were evicted from the store."""

    # -- draws

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: Lengths = 1,
        gamma: float = 0.99,
        beta: float = 0.0,
        sample_episodes: bool | None = None,
        to_numpy: bool = False,
        lookback: int = 1,
        min_batch_length_T: int = 0,
        **kwargs: Any,
    ) -> Any:
        """Draw steps.

        Args:
            num_items: Number of rows; of observations, if episodes of several steps are drawn.
            batch_size_B: Another name of it.
            batch_length_T: Number of steps of each row. More than 1 is for a buffer of one agent with equal probabilities, to
                which episodes were added; ``n_step`` is 1 then. As episodes, rows end with the episode that they are of.
            n_step: Number of steps whose rewards are summed, or the lowest and highest number to draw from.
            gamma: Discount of these rewards.
            beta: How far rows that are drawn often weigh less; 0 not at all, 1 in full. Only of prioritized buffers.
            sample_episodes: Return an episode of one step for each row, which learners take as well. Default: False,
                and True of a prioritized buffer to which episodes were added.
            to_numpy: Let these episodes hold arrays.
            lookback: Steps before such an episode that it remembers, if there are any. For episodes of one step, 1 is none.
            min_batch_length_T: The least steps of such an episode, if the one that it is of has as many.
            **kwargs: ``include_infos`` and ``include_extra_model_outputs``, of a buffer to which episodes were added.
                Others are taken for compatibility if they are false.

        Returns:
            Columns by module id; ``"weights"`` are those of the loss, ``"n_step"`` the numbers of summed rewards, which
            are fewer at the end of an episode. With ``sample_episodes`` a list of episodes, which have these two among
            their extra model outputs. Rows of several steps are those of :func:`.step_sequences.sequences`.

        Raises:
            ValueError: nothing was added yet, or an argument is not available.
        """
        infos, outputs = kwargs.pop("include_infos", False), kwargs.pop("include_extra_model_outputs", False)
        as_episodes = self._draws_episodes if sample_episodes is None else sample_episodes
        in_sequences = self._store is not None and not self._draws_episodes
        of_fragments = {"include_infos": infos, "include_extra_model_outputs": outputs}
        of_episodes = {"lookback": lookback > 1 and not (as_episodes and self._store is not None)}
        options = kwargs | (of_fragments if self._store is None else {}) | of_episodes
        self._refuse(options, None if in_sequences else batch_length_T)
        count = self._count(num_items, batch_size_B)
        if self._store is None:
            return self._fragment_rows(count, n_step, gamma, beta, to_numpy if sample_episodes else None)
        lengths = (min_batch_length_T, batch_length_T or self.batch_length_T, lookback)
        if in_sequences and lengths[1] > 1:
            return self._sequences(count, lengths, (infos, outputs, to_numpy) if as_episodes else None)
        rows = self._rows(
            self._store.modules(), count, n_step, gamma, beta, as_episodes and self._draws_episodes
        )
        if as_episodes:
            return list(self._store.episodes(rows, infos, outputs, to_numpy, lookback if lookback > 1 else 0))
        return {module_id: columns_of(columns, infos, outputs) for module_id, columns in rows.items()}

    def _fragment_rows(
        self, count: int, n_step: Lengths, gamma: float, beta: float, to_numpy: bool | None
    ) -> Any:
        """Return rows of fragments: as columns, or if `to_numpy` is not None as episodes of one step."""
        places, weights = self._draw(count, beta)
        drawn = self._ring.windows(places, self._lengths(n_step, count), gamma)
        drawn["weights"] = weights
        return {DEFAULT_MODULE_ID: drawn} if to_numpy is None else episodes_of(drawn, to_numpy)

    def _sequences(
        self, count: int, lengths: tuple[int, int, int], which: tuple[bool, bool, bool] | None
    ) -> Any:
        """Return steps in sequences: rows of columns, or episodes if `which` says what these have."""
        store = self._make_store()
        (module_id,) = store.modules()
        pool, lanes = store.pools[module_id], store.book.lanes
        if which is None:
            return sequences(pool, lanes, count, lengths[1], self.rng)
        return sequence_episodes(pool, lanes, count, lengths, self.rng, which)

    @staticmethod
    def _refuse(options: dict[str, Any], length: int | None) -> None:
        """Raise an error for options that are on, and for rows of several steps."""
        asked = [name for name, value in options.items() if value]
        if length not in (None, 0, 1):
            asked.append(f"batch_length_T={length}")
        if asked:
            raise ValueError(
                f"sample() has no {', '.join(asked)} here: episodes and rows by priority are of single steps, and of "
                "fragments a buffer keeps observations, actions, rewards and ends"
            )

    def _count(self, num_items: int | None, batch_size_B: int | None) -> int:
        """Return the number of rows to draw, and count them."""
        if num_items is not None and batch_size_B is not None:
            raise ValueError(
                f"num_items={num_items} and batch_size_B={batch_size_B} are two names of one number; give one"
            )
        if not (self._ring.size if self._store is None else self._store.modules()):
            raise ValueError("sample() of an empty replay buffer; add() fragments or episodes first")
        count = num_items or batch_size_B or self.batch_size_B
        self.sampled_timesteps += count
        return count

    def _rows(
        self, modules: Collection[str], count: int, n_step: Lengths, gamma: float, beta: float, whole: bool
    ) -> dict[str, dict[str, np.ndarray]]:
        """Return rows of modules; with ``whole`` rows are drawn again that would have fewer steps than are to be summed."""
        store, found = self._make_store(), {}
        for module_id in modules:
            pool, lengths = store.pools[module_id], self._lengths(n_step, count)
            places, weights = self._draw_of(module_id, count, beta)
            short = pool.reach(places, lengths) < lengths if whole else np.zeros(count, bool)
            for _ in range(_TRIES):
                if not short.any():
                    break
                store.counts.add_resamples(module_id, int(short.sum()))
                places[short], weights[short] = self._draw_of(module_id, int(short.sum()), beta)
                short = pool.reach(places, lengths) < lengths
            self._note_drawn(module_id, places)
            found[module_id] = store.rows(module_id, places, lengths, gamma)
            found[module_id]["weights"] = (weights / weights.max()).astype(np.float32)
        return found

    def _lengths(self, n_step: Lengths, count: int) -> np.ndarray:
        """Return the number of steps whose rewards are summed, for each row."""
        if n_step is None or isinstance(n_step, int):
            return np.full(count, n_step or 1)
        return self.rng.integers(int(n_step[0]), int(n_step[-1]) + 1, count)

    def _draw(self, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Return places in the ring, and weights."""
        return self.rng.integers(0, self._ring.size, count), np.ones(count, np.float32)

    def _draw_of(self, module_id: str, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """Return places of a module in the store, and weights."""
        pool = self._make_store().pools[module_id]
        return pool.live[self.rng.integers(0, pool.size, count)], np.ones(count)

    def _note_drawn(self, module_id: str, places: np.ndarray) -> None:
        """Keep what errors of rows will be for."""

    def update_priorities(self, priorities: Any, module_id: str | None = None) -> None:
        """Take the errors of the rows that were drawn last; has no effect on equal probabilities.

        Args:
            priorities: Errors, or a dict of them by module id.
            module_id: The module, if there are several and it is not a dict.
        """

    # -- state

    def get_state(self) -> dict[str, Any]:
        """Return everything that is stored, and the state of the random draws."""
        held = {"ring": self._ring.get_state()} if self._store is None else {"store": self._store.get_state()}
        return {**held, "numbers": self.rng.bit_generator.state, "sampled_timesteps": self.sampled_timesteps}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned."""
        if "store" in state:
            self._make_store().set_state(state["store"])
        else:
            self._ring = ColumnRing(self.capacity)
            self._ring.set_state(state["ring"])
        self.rng.bit_generator.state = state["numbers"]
        self.sampled_timesteps = state.get("sampled_timesteps", 0)
