"""The cache of keys and values: one slot for each request, of which a step of the model reads a contiguous range."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.cache_utils import Cache

#: The initial number of positions of a slot; doubled when a request needs more.
_FIRST_CAPACITY = 128


class SlotCache(Cache):
    """The KV cache of a batch with changing requests.

    A slot is a row of [slots, positions, heads, width] in each layer, so that a token's keys are contiguous and
    one index writes them. Before the model runs, `write_to` sets the place of the new keys and the range to read:
    only the keys of this call (the start of a prompt), or the keys of some slots up to a position.
    """

    def __init__(self, layers: int, slots: int, limit: int, more: int = 0) -> None:
        super().__init__(layers=[])
        self.slots = slots
        #: The slots of answers, followed by the rows of cached prefixes, which are only copied from.
        self.rows = slots + more
        self.limit = limit
        self.capacity = min(limit, _FIRST_CAPACITY)
        self._keys: list[torch.Tensor | None] = [None] * layers
        self._values: list[torch.Tensor | None] = [None] * layers
        self._index = torch.empty(0, dtype=torch.long)
        self._read: tuple[int, int, int] | None = None

    def write_to(self, index: torch.Tensor, read: tuple[int, int, int] | None) -> None:
        """Set the place where the next call writes its keys, and the range that it reads.

        Args:
            index: slot * capacity + position for each token of the call, in order.
            read: the first slot, the slot after the last, and the number of positions; None for the call's own keys.
        """
        self._index = index
        self._read = read

    def reserve(self, positions: int) -> None:
        """Grow each slot to at least this many positions."""
        if positions <= self.capacity:
            return
        capacity = self.capacity
        while capacity < positions:
            capacity *= 2
        capacity = min(capacity, self.limit)
        for kept in (self._keys, self._values):
            for layer, old in enumerate(kept):
                if old is not None:
                    new = old.new_zeros((self.rows, capacity, *old.shape[2:]))
                    new[:, : self.capacity] = old
                    kept[layer] = new
        self.capacity = capacity

    def move(self, source: int, target: int, positions: int) -> None:
        """Copy the first keys and values of a slot to another."""
        for kept in (self._keys, self._values):
            for each in kept:
                if each is not None:
                    each[target, :positions] = each[source, :positions]

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *args: object,
        **kwargs: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store a layer's new keys and values, [batch, heads, tokens, width]; return the ones that it attends to."""
        keys, values = self._keys[layer_idx], self._values[layer_idx]
        if keys is None or values is None:
            keys = self._keys[layer_idx] = self._made(key_states)
            values = self._values[layer_idx] = self._made(value_states)
        keys.view(-1, *keys.shape[2:]).index_copy_(0, self._index, _by_token(key_states))
        values.view(-1, *values.shape[2:]).index_copy_(0, self._index, _by_token(value_states))
        if self._read is None:
            return key_states, value_states
        first, last, positions = self._read
        return (
            keys[first:last, :positions].transpose(1, 2),
            values[first:last, :positions].transpose(1, 2),
        )

    def _made(self, like: torch.Tensor) -> torch.Tensor:
        # Zeros, because empty rows are computed as well and must not contain NaN.
        return like.new_zeros((self.rows, self.capacity, like.shape[1], like.shape[3]))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0, because positions are always passed explicitly."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the query's length, because transformers calls this only if a call attends to its own keys alone."""
        return query_length, 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Return 0, because positions are always passed explicitly."""
        return 0

    @property
    def is_sliding(self) -> list[bool]:
        """False for each layer, because all keys are kept; masks implement sliding windows."""
        return [False] * len(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _by_token(states: torch.Tensor) -> torch.Tensor:
    """Reshape [batch, heads, tokens, width] to [batch * tokens, heads, width]."""
    batch, heads, tokens, width = states.shape
    return states.transpose(1, 2).reshape(batch * tokens, heads, width)


def rows_of(slots: Sequence[int], positions: Sequence[int], capacity: int) -> torch.Tensor:
    """Return the index of one token for each slot."""
    return torch.tensor([slot * capacity + at for slot, at in zip(slots, positions, strict=True)])
