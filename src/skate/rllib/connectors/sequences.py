"""Steps of an episode in pieces of equal length, for modules with memory."""

from __future__ import annotations

import numpy as np


def padded_pieces(rows: np.ndarray, length: int) -> list[np.ndarray]:
    """Return rows in pieces; the last one is filled up with zeros.

    Args:
        rows: At least one row.
        length: Rows of each piece.
    """
    missing = -len(rows) % length
    if missing:
        rows = np.concatenate([rows, np.zeros((missing, *rows.shape[1:]), rows.dtype)])
    return list(rows.reshape(-1, length, *rows.shape[1:]))
