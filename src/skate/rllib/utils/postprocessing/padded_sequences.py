"""Rows of episodes in sequences of equal length, filled up with zeros, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skate.rllib.connectors.sequences import padded_pieces
from skate.rllib.env.nested import BatchedNdArray, leaves, map_nested

__all__ = [
    "BatchedNdArray",
    "create_mask_and_seq_lens",
    "split_and_zero_pad",
    "split_and_zero_pad_n_episodes",
    "unpad_data_if_necessary",
]


def create_mask_and_seq_lens(episode_len: int, T: int) -> tuple[list[np.ndarray], list[int]]:
    """Return where the sequences of an episode have steps, and how many each has.

    Args:
        episode_len: Steps of the episode.
        T: The most steps in a sequence.
    """
    lengths = [min(T, episode_len - start) for start in range(0, max(episode_len, 1), T)]
    return [np.arange(T) < length for length in lengths], lengths


def split_and_zero_pad(item_list: Sequence[Any], max_seq_len: int) -> list[Any]:
    """Return items in sequences of equal length; the last one is filled up with zeros.

    Args:
        item_list: At least one item, nested or not; a leaf that is a ``BatchedNdArray`` has several of them.
        max_seq_len: Items in a sequence.
    """

    def pieces(*parts: Any) -> list[np.ndarray]:
        rows = [
            np.asarray(part) if isinstance(part, BatchedNdArray) else np.asarray(part)[None] for part in parts
        ]
        return padded_pieces(np.concatenate(rows), max_seq_len)

    split = map_nested(pieces, item_list[0], *item_list[1:])
    count = len(next(leaves(split)))
    return [map_nested(lambda of_leaf, at=at: of_leaf[at], split) for at in range(count)]


def split_and_zero_pad_n_episodes(
    nd_array: np.ndarray, episode_lens: Sequence[int], max_seq_len: int
) -> list[np.ndarray]:
    """Return the rows of several episodes in sequences, of which none has rows of two episodes.

    Args:
        nd_array: The rows, one episode after another.
        episode_lens: Rows of each episode.
        max_seq_len: Rows in a sequence.
    """
    bounds = np.cumsum([0, *episode_lens])
    return [
        piece
        for start, end in zip(bounds[:-1], bounds[1:], strict=True)
        if end > start
        for piece in padded_pieces(np.asarray(nd_array[start:end]), max_seq_len)
    ]


def unpad_data_if_necessary(episode_lens: Sequence[int], data: np.ndarray) -> np.ndarray:
    """Return the rows of several episodes without what sequences were filled up with.

    Args:
        episode_lens: Rows of each episode.
        data: Sequences of shape ``(sequences, rows)``; rows alone are returned as they are.

    Raises:
        ValueError: the data has more than two axes.
    """
    if data.ndim == 1:
        return data
    if data.ndim != 2:
        raise ValueError(f"sequences of numbers have two axes, not {data.ndim}: {data.shape}")
    length, at, kept = data.shape[1], 0, []
    for rows in episode_lens:
        sequences = -(-rows // length)
        kept.append(data[at : at + sequences].reshape(-1)[:rows])
        at += sequences
    return np.concatenate(kept)
