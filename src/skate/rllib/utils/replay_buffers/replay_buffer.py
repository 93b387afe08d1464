"""ReplayBuffer: batches of steps, sequences or episodes that are drawn again and again."""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch, concat_samples


class StorageUnit(Enum):
    """The items of a buffer: single steps, sequences, whole episodes, or batches as they were added."""

    TIMESTEPS = "timesteps"
    SEQUENCES = "sequences"
    EPISODES = "episodes"
    FRAGMENTS = "fragments"


class ReplayBuffer:
    """A ring of items that are drawn with equal probabilities, for programs with batches of their own.

    Algorithms replay episodes: see `EpisodeReplayBuffer`. Draws are those of the module `random`, whose seed makes them repeat.
    A subclass changes what becomes of an item with `_add_single_batch`.

    Args:
        capacity: Steps after which the oldest items are overwritten. The last item may go past it.
        storage_unit: ``"timesteps"``, ``"sequences"``, ``"episodes"`` or ``"fragments"``, or a `StorageUnit`.
        **kwargs: Taken for compatibility.

    Raises:
        ValueError: the capacity is not positive, or the unit is unknown.
    """

    def __init__(
        self, capacity: int = 10000, storage_unit: str | StorageUnit = "timesteps", **kwargs: Any
    ) -> None:
        units = [unit.value for unit in StorageUnit]
        if storage_unit not in (*StorageUnit, *units):
            raise ValueError(f"storage_unit must be one of {', '.join(units)}, and is {storage_unit!r}")
        if capacity <= 0:
            raise ValueError(f"Capacity of a replay buffer has to be greater than zero, and is {capacity}")
        self.storage_unit = StorageUnit(storage_unit)
        self.capacity = capacity
        self._storage: list[Any] = []
        self._next_idx = 0
        self._eviction_started = False
        self._num_timesteps_added = 0
        self._num_timesteps_added_wrap = 0
        self._num_timesteps_sampled = 0
        self._est_size_bytes = 0

    def __len__(self) -> int:
        return len(self._storage)

    def add(self, batch: Any, **kwargs: Any) -> None:
        """Add a batch, as items of the buffer's unit.

        Episodes that do not begin and end in the batch are left out. The items share the memory of the batch.

        Args:
            batch: A `SampleBatch`, or a `MultiAgentBatch` in a buffer of steps or fragments.
            **kwargs: Passed on to `_add_single_batch`.
        """
        if not batch.count:
            return
        for item in self._items(batch):
            self._add_single_batch(item, **kwargs)

    def _items(self, batch: Any) -> list[Any]:
        if self.storage_unit is StorageUnit.FRAGMENTS:
            return [batch]
        if self.storage_unit is StorageUnit.TIMESTEPS:
            steps: list[Any] = batch.timeslices(1)
            return steps
        if isinstance(batch, MultiAgentBatch):
            raise ValueError(
                f"a batch of several modules has no {self.storage_unit.value} in common; use storage_unit='timesteps' or "
                "'fragments', or a buffer for each module"
            )
        if self.storage_unit is StorageUnit.EPISODES:
            return [episode for episode in batch.split_by_episode() if _is_whole(episode)]
        if batch.get(Columns.SEQ_LENS) is None:
            raise ValueError(
                "a buffer of sequences needs their lengths; add the column 'seq_lens' to the batch"
            )
        ends = np.cumsum(batch[Columns.SEQ_LENS]).tolist()
        return [batch[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]

    def _add_single_batch(self, item: Any, **kwargs: Any) -> None:
        """Store one item in the next place of the ring.

        Args:
            item: A batch.
            **kwargs: Of subclasses.
        """
        self._num_timesteps_added += item.count
        self._num_timesteps_added_wrap += item.count
        self._put(self._next_idx, item)
        if self._num_timesteps_added_wrap >= self.capacity:
            self._eviction_started = True
            self._num_timesteps_added_wrap = 0
            self._next_idx = 0
        else:
            self._next_idx += 1

    def _put(self, index: int, item: Any) -> None:
        if index < len(self._storage):
            self._est_size_bytes -= self._storage[index].size_bytes()
            self._storage[index] = item
        else:
            self._storage.append(item)
        self._est_size_bytes += item.size_bytes()

    def sample(self, num_items: int | None = None, **kwargs: Any) -> Any:
        """Draw items, some of them perhaps several times, and return them as one batch.

        Args:
            num_items: How many.
            **kwargs: Of subclasses.

        Raises:
            ValueError: the buffer is empty, or the number is missing.
        """
        indices = random.choices(range(self._checked(num_items)), k=num_items or 0)
        batch = self._encode_sample(indices)
        self._num_timesteps_sampled += batch.count
        return batch

    def _checked(self, num_items: int | None) -> int:
        if not self._storage:
            raise ValueError("Trying to sample from an empty buffer.")
        if num_items is None:
            raise ValueError("sample() needs the number of items to draw")
        return len(self._storage)

    def _encode_sample(self, idxes: list[int]) -> Any:
        """Return items as one batch.

        Args:
            idxes: Their places.
        """
        return concat_samples([self._storage[at] for at in idxes]) if idxes else SampleBatch()

    def stats(self, debug: bool = False) -> dict[str, Any]:
        """Return the counts of steps, the number of items and the memory they take.

        Args:
            debug: Taken for compatibility.
        """
        return {
            "added_count": self._num_timesteps_added,
            "added_count_wrapped": self._num_timesteps_added_wrap,
            "eviction_started": self._eviction_started,
            "sampled_count": self._num_timesteps_sampled,
            "est_size_bytes": self._est_size_bytes,
            "num_entries": len(self._storage),
        }

    def get_state(self) -> dict[str, Any]:
        """Return all items and counts."""
        return {"_storage": self._storage, "_next_idx": self._next_idx, **self.stats()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take the items and counts of another buffer.

        Args:
            state: What `get_state` returned.
        """
        self._storage = state["_storage"]
        self._next_idx = state["_next_idx"]
        self._num_timesteps_added = state["added_count"]
        self._num_timesteps_added_wrap = state["added_count_wrapped"]
        self._eviction_started = state["eviction_started"]
        self._num_timesteps_sampled = state["sampled_count"]
        self._est_size_bytes = state["est_size_bytes"]

    def apply(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what a function returns for this buffer, which may be an actor.

        Args:
            func: Takes the buffer first.
            *args: Further arguments of it.
            **kwargs: Further arguments of it.
        """
        return func(self, *args, **kwargs)


def sample_min_n_steps_from_buffer(
    replay_buffer: ReplayBuffer, min_steps: int, count_by_agent_steps: bool
) -> Any:
    """Draw single items until they have enough steps, and return them as one batch.

    Args:
        replay_buffer: The buffer.
        min_steps: The number of steps.
        count_by_agent_steps: Count the rows of all modules, and not the steps of environments.
    """
    drawn, steps = [], 0
    while steps < min_steps:
        batch = replay_buffer.sample(num_items=1)
        added = batch.agent_steps() if count_by_agent_steps else batch.env_steps()
        if not added:
            # Such a buffer has nothing to draw yet.
            return batch
        drawn.append(batch)
        steps += added
    return concat_samples(drawn)


def _is_whole(episode: SampleBatch) -> bool:
    first = episode.get(Columns.T)
    ends = [episode.get(name) for name in (Columns.TERMINATEDS, Columns.TRUNCATEDS)]
    ended = [bool(end[-1]) for end in ends if end is not None]
    # An episode that says nothing of its end is taken for a whole one.
    return (first is None or first[0] == 0) and (any(ended) or ends[0] is None)
