"""Datasets into files, tables and other systems."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase


class Writing(DatasetBase):
    """Datasets into files, tables and other systems."""
