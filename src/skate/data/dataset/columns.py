"""Columns by name and by expression."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase


class Columns(DatasetBase):
    """Columns by name and by expression."""
