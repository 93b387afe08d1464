"""What a program takes out of a dataset: rows, batches, counts, whole tables."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase


class Consuming(DatasetBase):
    """What a program takes out of a dataset: rows, batches, counts, whole tables."""
