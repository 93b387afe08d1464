"""Rows and batches through functions; several datasets together."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase


class Transforms(DatasetBase):
    """Rows and batches through functions; several datasets together."""
