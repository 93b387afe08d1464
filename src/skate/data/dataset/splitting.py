"""Parts of a dataset as datasets or iterators."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase


class Splitting(DatasetBase):
    """Parts of a dataset as datasets or iterators."""
