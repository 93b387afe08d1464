"""Keys and values of all requests: a place for each, of which a step of the model uses a contiguous part."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers.cache_utils import Cache

#: Positions that places have room for at first; they are doubled when a request gets longer.
_FIRST_CAPACITY = 128


class SlotCache(Cache):
    """The KV cache of a batch with changing requests.

    A slot is a row of [slots, positions, heads, width] in each layer, so that a token's keys are contiguous and
    are written by one index. Before the model runs, `write_to` sets the place of the new keys and the range to
    read: the keys of this call alone (the beginning of a prompt), or those of some slots up to a position.
    """

    def __init__(self, layers: int, slots: int, limit: int, more: int = 0) -> None:
        super().__init__(layers=[])
        self.slots = slots
        #: Those of answers, and behind them those that are only copied from.
        self.rows = slots + more
        self.limit = limit
        self.capacity = min(limit, _FIRST_CAPACITY)
        self._keys: list[torch.Tensor | None] = [None] * layers
        self._values: list[torch.Tensor | None] = [None] * layers
        self._index = torch.empty(0, dtype=torch.long)
        self._read: tuple[int, int, int] | None = None

    def write_to(self, index: torch.Tensor, read: tuple[int, int, int] | None) -> None:
        """Set where the next call writes its keys, and what it reads.

        Args:
            index: for each token of the call, in order, slot * capacity + position.
            read: first slot, slot after the last, and number of positions; None for the call's own keys.
        """
        self._index = index
        self._read = read

    def reserve(self, positions: int) -> None:
        """Make room for so many positions in every slot."""
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
        """Copy the keys of a slot to another."""
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
        """Take a layer's new keys and values, [batch, heads, tokens, width], and return those that it attends to."""
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
        # Zeros, as a row that holds no request is computed as well, and must not have what is no number.
        return like.new_zeros((self.rows, self.capacity, like.shape[1], like.shape[3]))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0, because positions are always passed explicitly."""
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Only asked when a call sees its own keys alone."""
        return query_length, 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Return 0, because positions are always passed explicitly."""
        return 0

    @property
    def is_sliding(self) -> list[bool]:
        """All layers keep everything; sliding windows are a matter of the mask."""
        return [False] * len(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _by_token(states: torch.Tensor) -> torch.Tensor:
    """[batch, heads, tokens, width] as [batch * tokens, heads, width]."""
    batch, heads, tokens, width = states.shape
    return states.transpose(1, 2).reshape(batch * tokens, heads, width)


def rows_of(slots: Sequence[int], positions: Sequence[int], capacity: int) -> torch.Tensor:
    """The index of one token for each slot."""
    return torch.tensor([slot * capacity + at for slot, at in zip(slots, positions, strict=True)])
