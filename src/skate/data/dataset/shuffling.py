"""What needs rows of several blocks together: sort, shuffle, group, join, repartition."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase


class Shuffling(DatasetBase):
    """What needs rows of several blocks together: sort, shuffle, group, join, repartition."""
