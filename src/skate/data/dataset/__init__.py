"""The dataset: its operations by kind, one file a kind."""

from __future__ import annotations

from skate.data.dataset.columns import Columns
from skate.data.dataset.consuming import Consuming
from skate.data.dataset.shuffling import Shuffling
from skate.data.dataset.splitting import Splitting
from skate.data.dataset.transforms import Transforms
from skate.data.dataset.writing import Writing


class Dataset(Transforms, Columns, Shuffling, Consuming, Splitting, Writing):
    """Rows in blocks, as a plan that runs when something is asked for."""


__all__ = ["Dataset"]
