"""The cache of keys and values: one slot for each request, of which a step of the model reads a contiguous range."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.cache_utils import Cache

#: The initial number of positions of a slot; doubled when a request needs more.
_FIRST_CAPACITY = 128


class SlotCache(Cache):
    """The KV cache of a batch with changing requests.

    A slot is a row of [slots, heads, positions, width] in each layer, so that the keys of a head are contiguous, as
    attention reads them. Before the model runs, `write_to` sets the place of the new keys and the range to read:
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
        self._slots = self._positions = torch.empty(0, dtype=torch.long)
        #: The places of the call's keys in a layer with that number of heads; the first layer computes them.
        self._index: torch.Tensor | None = None
        self._index_heads = 0
        self._read: tuple[int, int, int] | None = None

    def write_to(
        self, slots: Sequence[int], positions: torch.Tensor, read: tuple[int, int, int] | None
    ) -> None:
        """Set the place where the next call writes its keys, and the range that it reads.

        Args:
            slots: the slot of each row of the call.
            positions: the positions of its tokens, [rows, tokens].
            read: the first slot, the slot after the last, and the number of positions; None for the call's own keys.
        """
        self._slots = torch.tensor(slots).view(-1, 1, 1)
        self._positions = positions.unsqueeze(1)
        self._index = None
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
                    new = old.new_zeros((*old.shape[:2], capacity, old.shape[3]))
                    new[:, :, : self.capacity] = old
                    kept[layer] = new
        self.capacity = capacity

    def move(self, source: int, target: int, positions: int) -> None:
        """Copy the first keys and values of a slot to another."""
        for kept in (self._keys, self._values):
            for each in kept:
                if each is not None:
                    each[target, :, :positions] = each[source, :, :positions]

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
        if self._index is None or self._index_heads != keys.shape[1]:
            self._index_heads = keys.shape[1]
            heads = torch.arange(keys.shape[1]).view(1, -1, 1)
            places = (self._slots * keys.shape[1] + heads) * self.capacity + self._positions
            self._index = places.flatten()
        width = keys.shape[-1]
        keys.view(-1, width).index_copy_(0, self._index, key_states.reshape(-1, width))
        values.view(-1, width).index_copy_(0, self._index, value_states.reshape(-1, width))
        if self._read is None:
            return key_states, value_states
        first, last, positions = self._read
        return keys[first:last, :, :positions], values[first:last, :, :positions]

    def _made(self, like: torch.Tensor) -> torch.Tensor:
        # Zeros, because empty rows are computed as well and must not contain NaN.
        return like.new_zeros((self.rows, like.shape[1], self.capacity, like.shape[3]))

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
