"""PrioritizedEpisodeReplayBuffer: steps that are drawn by the size of their errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.utils.metrics import TD_ERROR_KEY
from skate.rllib.utils.replay_buffers.episode_replay_buffer import EpisodeReplayBuffer
from skate.rllib.utils.replay_buffers.sum_tree import SumTree

_SMALLEST = 1e-6
#: In the place of a row that was drawn and evicted since.
_GONE = -1


class PrioritizedEpisodeReplayBuffer(EpisodeReplayBuffer):
    """Draws steps with large errors more often (Schaul et al. 2016, arXiv:1511.05952).

    Args:
        capacity: Number of steps. Default 10,000.
        alpha: 0 draws with equal probabilities, 1 in proportion to the errors. Default 1.0.
        **kwargs: Arguments of :class:`EpisodeReplayBuffer`.

    Raises:
        ValueError: ``alpha`` is negative.
    """

    _draws_episodes = True

    def __init__(self, capacity: int = 10_000, *, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(capacity, **kwargs)
        if alpha < 0:
            raise ValueError(f"alpha has to be 0 or more, not {alpha}")
        self._alpha = alpha
        # Of the ring; the steps of each module in the store have their own.
        self._tree = SumTree(self.capacity)
        self._highest = 1.0
        self._drawn = np.empty(0, np.int64)
        self._trees: dict[str, SumTree] = {}
        self._highest_of: dict[str, float] = {}
        self._drawn_of: dict[str, np.ndarray] = {}

    def _added(self, places: np.ndarray) -> None:
        super()._added(places)
        # A step without an error yet is as likely as the worst one, so that each is drawn soon.
        if len(places):
            self._tree[places] = self._highest**self._alpha

    def _draw(self, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        self._drawn, weights = drawn_by_priority(self._tree, self._ring.size, count, beta, self.rng)
        return self._drawn, (weights / weights.max()).astype(np.float32)

    # -- steps in the store

    def _tree_of(self, module_id: str) -> SumTree:
        tree, places = self._trees.get(module_id), self._make_store().pools[module_id].num_places
        if tree is None or tree.num_leaves < places:
            made = SumTree(places)
            if tree is not None:
                held = np.arange(tree.num_leaves)
                made[held] = tree[held]
            tree = self._trees[module_id] = made
        return tree

    def _stored(self, module_id: str, places: np.ndarray) -> None:
        self._tree_of(module_id)[places] = self._highest_of.get(module_id, 1.0) ** self._alpha

    def _removed(self, module_id: str, places: np.ndarray) -> None:
        if len(places):
            self._tree_of(module_id)[places] = 0.0
        drawn = self._drawn_of.get(module_id)
        if drawn is not None:
            self._drawn_of[module_id] = np.where(np.isin(drawn, places), _GONE, drawn)

    def _draw_of(self, module_id: str, count: int, beta: float) -> tuple[np.ndarray, np.ndarray]:
        size = self._make_store().pools[module_id].size
        return drawn_by_priority(self._tree_of(module_id), size, count, beta, self.rng)

    def _note_drawn(self, module_id: str, places: np.ndarray) -> None:
        self._drawn_of[module_id] = places

    # -- errors

    def update_priorities(self, priorities: Any, module_id: str | None = None) -> None:
        """Take the errors of the rows that were drawn last.

        Args:
            priorities: Errors of the rows, in their order, or a dict of them by module id.
            module_id: The module, if there are several and it is not a dict.

        Raises:
            ValueError: The module is missing, or there are more or fewer errors than rows.
        """
        if self._store is None:
            errors = next(iter(priorities.values())) if isinstance(priorities, dict) else priorities
            if errors is not None:
                self._highest = max(self._highest, take_errors(self._tree, self._drawn, errors, self._alpha))
            return
        if not isinstance(priorities, dict):
            known = list(self._store.pools)
            if module_id is None and len(known) != 1:
                raise ValueError(
                    f"errors of which module of {known}? pass module_id=, or a dict of errors by module id"
                )
            priorities = {module_id or known[0]: priorities}
        for key, errors in priorities.items():
            if errors is None or key not in self._store.pools:
                continue
            drawn = self._drawn_of.get(key, np.empty(0, np.int64))
            highest = take_errors(self._tree_of(key), drawn, errors, self._alpha)
            self._highest_of[key] = max(self._highest_of.get(key, 1.0), highest)

    # -- state

    def get_state(self) -> dict[str, Any]:
        if self._store is None:
            leaves: Any = self._tree[np.arange(self._ring.size)]
            return {**super().get_state(), "priorities": leaves, "highest": self._highest}
        leaves = {key: self._tree_of(key)[pool.live] for key, pool in self._store.pools.items()}
        return {**super().get_state(), "priorities": leaves, "highest": dict(self._highest_of)}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if self._store is None:
            self._highest = state["highest"]
            self._tree = SumTree(self.capacity)
            self._tree[np.arange(self._ring.size)] = state["priorities"]
            return
        self._highest_of = dict(state["highest"])
        self._trees, self._drawn_of = {}, {}
        for key, leaves in state["priorities"].items():
            if len(leaves):
                self._tree_of(key)[self._store.pools[key].live] = leaves


def drawn_by_priority(
    tree: SumTree, size: int, count: int, beta: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of rows, and weights that are the less the more likely a row is.

    Args:
        tree: The priorities by place.
        size: Number of steps that are stored.
        count: Number of rows.
        beta: How far rows that are drawn often weigh less.
        rng: The source of the draws.
    """
    # One draw from each of `count` equal parts: fewer repetitions than independent draws.
    total = tree.total
    masses = (np.arange(count) + rng.random(count)) * (total / count)
    drawn = tree.find(masses)
    weights = (size * (tree[drawn] / total)) ** -beta
    # One order for all rows would correlate with their errors, and a learner may split the batch.
    order = rng.permutation(count)
    return drawn[order], weights[order]


def take_errors(tree: SumTree, drawn: np.ndarray, errors: Any, alpha: float) -> float:
    """Set the priorities of rows by their errors, and return the greatest error.

    Args:
        tree: The priorities by place.
        drawn: The places of the rows; negative ones are of steps that are stored no more.
        errors: One for each row.
        alpha: The exponent of the errors.

    Raises:
        ValueError: There are more or fewer errors than rows.
    """
    sizes = np.maximum(np.abs(np.asarray(errors, np.float64)).reshape(-1), _SMALLEST)
    if len(sizes) != len(drawn):
        raise ValueError(f"{len(sizes)} errors were given for the {len(drawn)} rows that were drawn last")
    highest, held = float(sizes.max(initial=0.0)), drawn >= 0
    if not held.all():
        drawn, sizes = drawn[held], sizes[held]
    # Of a step that was drawn twice, its first error counts.
    tree[drawn[::-1]] = sizes[::-1] ** alpha
    return highest


def update_priorities_in_episode_replay_buffer(*, replay_buffer: Any, td_errors: dict[str, Any]) -> None:
    """Give a prioritized buffer the errors of the rows that were drawn last; another buffer has no use for them.

    Args:
        replay_buffer: The buffer.
        td_errors: What learners returned, by module id: dicts with the errors under ``"td_error"``.
    """
    if isinstance(replay_buffer, PrioritizedEpisodeReplayBuffer):
        for module_id, found in td_errors.items():
            if not module_id.startswith("__") and found.get(TD_ERROR_KEY) is not None:
                replay_buffer.update_priorities(found[TD_ERROR_KEY], module_id)
