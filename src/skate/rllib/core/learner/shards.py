"""Parts of batches and of lists of episodes, for learners and for programs that cut their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from skate.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch


class MiniBatchCyclicIterator:
    """Minibatches of all modules, each of one size: a module with fewer rows begins again.

    Args:
        batch: The rows by module.
        num_epochs: How often every row is given at least.
        minibatch_size: Rows of each module in a minibatch.
        shuffle_batch_per_epoch: False to give every epoch in the same order.
        num_total_minibatches: Give this many, whatever the number of epochs.

    Raises:
        ValueError: a module has no rows.
    """

    def __init__(
        self,
        batch: MultiAgentBatch,
        *,
        num_epochs: int = 1,
        minibatch_size: int,
        shuffle_batch_per_epoch: bool = True,
        num_total_minibatches: int = 0,
    ) -> None:
        self._batch = batch
        self._size = minibatch_size
        self._shuffle = shuffle_batch_per_epoch
        lengths = {module_id: len(rows) for module_id, rows in batch.policy_batches.items()}
        empty = [module_id for module_id, length in lengths.items() if not length]
        if empty:
            raise ValueError(f"module {empty[0]!r} has no rows, of which no minibatch can be made")
        most = max(lengths.values(), default=0)
        self._count = num_total_minibatches or -(-most * num_epochs // minibatch_size)

    def __iter__(self) -> Iterator[MultiAgentBatch]:
        streams = {module_id: self._rows(len(rows)) for module_id, rows in self._batch.policy_batches.items()}
        for _ in range(self._count):
            parts = {
                module_id: SampleBatch(_chosen(rows, next(streams[module_id])))
                for module_id, rows in self._batch.policy_batches.items()
            }
            yield MultiAgentBatch(parts, len(self._batch))

    def _rows(self, length: int) -> Iterator[np.ndarray]:
        generator = np.random.default_rng(np.random.randint(1 << 31))
        rest = np.empty(0, np.int64)
        while True:
            while len(rest) < self._size:
                epoch = generator.permutation(length) if self._shuffle else np.arange(length)
                rest = np.concatenate((rest, epoch))
            chosen, rest = rest[: self._size], rest[self._size :]
            yield chosen


class MiniBatchDummyIterator:
    """The whole batch, once.

    Args:
        batch: The rows by module.
        **kwargs: Taken for compatibility.
    """

    def __init__(self, batch: MultiAgentBatch, **kwargs: Any) -> None:
        self._batch = batch

    def __iter__(self) -> Iterator[MultiAgentBatch]:
        yield self._batch


class ShardBatchIterator:
    """A batch in parts of as many rows.

    Args:
        batch: The rows by module.
        num_shards: The number of parts.
    """

    def __init__(self, batch: MultiAgentBatch, num_shards: int) -> None:
        self._batch, self._count = batch, num_shards

    def __iter__(self) -> Iterator[MultiAgentBatch]:
        for number in range(self._count):
            parts, most = {}, 0
            for module_id, rows in self._batch.policy_batches.items():
                most = -(-len(rows) // self._count)
                parts[module_id] = rows.slice(most * number, min(most * (number + 1), len(rows)))
            yield MultiAgentBatch(parts, most)


class ShardEpisodesIterator:
    """Episodes in lists of about as many steps, with as few episodes cut in two as possible.

    Args:
        episodes: The episodes.
        num_shards: The number of lists.
        len_lookback_buffer: Steps that the second part of an episode keeps of the first. Default: as the episode.
    """

    def __init__(
        self, episodes: Sequence[Any], num_shards: int, len_lookback_buffer: int | None = None
    ) -> None:
        self._episodes = sorted(episodes, key=len, reverse=True)
        self._lookback = len_lookback_buffer
        steps, more = divmod(sum(map(len, episodes)), num_shards)
        self._targets = [steps + (number >= num_shards - more) for number in range(num_shards)]

    def __iter__(self) -> Iterator[list[Any]]:
        shards: list[list[Any]] = [[] for _ in self._targets]
        lengths = [0] * len(self._targets)
        for episode in self._episodes:
            rest = episode
            while True:
                least = lengths.index(min(lengths))
                room = self._targets[least] - lengths[least]
                if len(rest) <= room or not room:
                    break
                shards[least].append(rest[:room])
                lengths[least] += room
                rest = rest.slice(slice(room, None), len_lookback_buffer=self._lookback)
            shards[least].append(rest)
            lengths[least] += len(rest)
        return iter(shards)


class ShardObjectRefIterator:
    """References in lists of about as many.

    Args:
        object_refs: The references.
        num_shards: The number of lists.
    """

    def __init__(self, object_refs: Sequence[Any], num_shards: int) -> None:
        self._references, self._count = object_refs, num_shards

    def __iter__(self) -> Iterator[list[Any]]:
        begin = 0
        few, more = divmod(len(self._references), self._count)
        for number in range(self._count):
            end = begin + few + (number < more)
            yield list(self._references[begin:end])
            begin = end


def _chosen(columns: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    return {
        name: _chosen(column, rows) if isinstance(column, Mapping) else column[rows]
        for name, column in columns.items()
        if column is not None
    }
