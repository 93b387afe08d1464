"""Batches of a learner: rows from rollouts, and minibatches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skate.rllib.core import DEFAULT_MODULE_ID
from skate.rllib.core.columns import Columns
from skate.rllib.policy.sample_batch import MultiAgentBatch

Batch = dict[str, Any]
#: Memory of minibatches that are put together at once.
_BYTES_AT_ONCE = 4 << 20


def numeric(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the columns that can be tensors."""
    arrays = {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}
    return {name: column for name, column in arrays.items() if column.dtype.kind in "biuf"}


def rows_of(columns: Mapping[str, np.ndarray], valid: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns ``(T, N, ...)`` as rows ``(B, ...)``, without rows that are not valid."""
    whole = bool(valid.all())
    rows: dict[str, np.ndarray] = {}
    for name, column in columns.items():
        rows[name] = column.reshape(-1, *column.shape[2:]) if whole else column[valid]
    return rows


def joined(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the rows of several parts one after another; only columns that all parts have."""
    if len(parts) == 1:
        return dict(parts[0])
    names = [name for name in parts[0] if all(name in part for part in parts)]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def by_module(given: Any, known: Sequence[str]) -> dict[str, Any]:
    """Return what was given for each module id.

    Args:
        given: A dict by module id, or what is meant for the only module.
        known: The ids of all modules.

    Raises:
        ValueError: several modules exist, and the ids are missing or unknown.
    """
    if isinstance(given, Mapping):
        policy_batches = getattr(given, "policy_batches", None)
        inner = policy_batches if policy_batches is not None else given
        if inner and all(name in known for name in inner):
            return dict(inner)
        if any(isinstance(part, Mapping) and name != Columns.STATE_IN for name, part in inner.items()):
            unknown = sorted(str(name) for name in inner if name not in known)
            raise ValueError(f"the batch is for {unknown}, but the learner has {sorted(known)}")
    elif hasattr(given, "policy_batches"):
        return by_module(dict(given.policy_batches), known)
    if len(known) != 1 and DEFAULT_MODULE_ID not in known:
        raise ValueError(
            f"a batch without module ids was given to a learner of {sorted(known)}; pass a dict by id"
        )
    return {known[0] if len(known) == 1 else DEFAULT_MODULE_ID: given}


def is_batch(given: Any) -> bool:
    """True of columns, by module id or of one module; false of fragments and of lists of them."""
    if isinstance(given, MultiAgentBatch):
        return True
    return isinstance(given, Mapping) and not all(isinstance(part, list) for part in given.values())


def length_of(batch: Mapping[str, Any]) -> int:
    """Return the number of rows: steps, or sequences of a module with memory."""
    for value in batch.values():
        if isinstance(value, Mapping):
            return length_of(value)
        if isinstance(value, Tensor):
            return int(value.shape[0])
    return 0


def steps_in(batch: Mapping[str, Any]) -> int:
    """Return the number of steps; padding of sequences does not count."""
    mask = batch.get(Columns.LOSS_MASK)
    return int(mask.sum()) if isinstance(mask, Tensor) else length_of(batch)


def select(batch: Mapping[str, Any], rows: Tensor) -> Batch:
    """Return the given rows of every column."""
    return {name: _selected(value, rows) for name, value in batch.items()}


def _selected(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value.index_select(0, rows if value.is_cpu else rows.to(value.device))
    if isinstance(value, tuple):
        return tuple(_selected(each, rows) for each in value)
    return select(value, rows) if isinstance(value, Mapping) else value


def pieces(value: Any, size: int, count: int) -> list[Any]:
    """Return every column cut into a number of pieces of a size, which are views of it."""
    if isinstance(value, Tensor):
        return list(value.split(size))  # type: ignore[no-untyped-call]
    if isinstance(value, tuple):
        return list(zip(*(pieces(each, size, count) for each in value), strict=True)) or [()] * count
    if not isinstance(value, Mapping):
        return [value] * count
    columns = [pieces(each, size, count) for each in value.values()]
    return [dict(zip(value, each, strict=True)) for each in zip(*columns, strict=True)] or [{}] * count


def bytes_of(value: Any) -> int:
    """Return the memory that tensors take, also nested ones."""
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple) else ()
    return sum(map(bytes_of, parts))


class _Stream:
    """Minibatches of one module, epoch after epoch.

    Args:
        batch: The columns.
        size: Rows in a minibatch.
        shuffle: True for a new order in each epoch.
        generator: The source of the orders.
    """

    def __init__(self, batch: Batch, size: int, shuffle: bool, generator: torch.Generator) -> None:
        self._batch, self._size = batch, size
        self._length = length_of(batch)
        self._shuffle = shuffle
        self._generator = generator
        self._rest = torch.empty(0, dtype=torch.int64)
        #: Minibatches that were put together at once; for small ones that takes as long as putting one together.
        self._ready: list[Batch] = []
        self._most = 1
        if size < self._length:
            self._most = max(1, _BYTES_AT_ONCE * self._length // (1 + size * bytes_of(batch)))

    def take(self, left: int) -> Batch:
        """Return the next minibatch.

        Args:
            left: How many there are still to be, with this one.
        """
        if self._size == self._length:
            return self._batch
        if not self._ready:
            count = min(self._fill(), self._most, left)
            rows, self._rest = self._rest[: count * self._size], self._rest[count * self._size :]
            chosen = select(self._batch, rows)
            self._ready = [chosen] if count == 1 else pieces(chosen, self._size, count)[::-1]
        return self._ready.pop()

    def _fill(self) -> int:
        """Add epochs until there are rows for a minibatch, and return for how many there are."""
        while len(self._rest) < self._size:
            if self._shuffle:
                epoch = torch.randperm(self._length, generator=self._generator)
            else:
                epoch = torch.arange(self._length)
            self._rest = torch.cat((self._rest, epoch))
        return len(self._rest) // self._size


def minibatches(
    batches: Mapping[str, Batch],
    *,
    num_epochs: int,
    minibatch_size: int | None,
    shuffle: bool,
    generator: torch.Generator,
    steps_per_row: Mapping[str, int] | None = None,
    num_total_minibatches: int = 0,
) -> Iterator[dict[str, Batch]]:
    """Yield minibatches by module id.

    All minibatches have the same size: one that reaches over the end of an epoch continues with the next epoch. It ends
    when every module's rows were given ``num_epochs`` times.

    Args:
        batches: Columns by module id.
        num_epochs: How often every row is given.
        minibatch_size: Steps in a minibatch. Default: the whole batch.
        shuffle: Give each epoch in a new order.
        generator: Source of the orders.
        steps_per_row: Steps in a row by module id, for modules whose rows are sequences.
        num_total_minibatches: Yield this many, whatever the number of epochs.
    """
    lengths = {module_id: length_of(batch) for module_id, batch in batches.items()}
    sizes = {}
    for module_id, length in lengths.items():
        wanted = minibatch_size // (steps_per_row or {}).get(module_id, 1) if minibatch_size else length
        sizes[module_id] = max(1, min(wanted, length))
    if not num_total_minibatches:
        counts = [-(-length * num_epochs // sizes[i]) for i, length in lengths.items() if length]
        num_total_minibatches = max(counts, default=0)
    shuffle = shuffle and any(sizes[i] < length for i, length in lengths.items())
    streams = {
        i: _Stream(batches[i], sizes[i], shuffle, generator) for i, length in lengths.items() if length
    }
    for left in range(num_total_minibatches, 0, -1):
        yield {i: stream.take(left) for i, stream in streams.items()}
