"""The dataset: its operations, one file per kind."""

from __future__ import annotations

from skate.data.dataset.base import DatasetBase
from skate.data.dataset.columns import Columns
from skate.data.dataset.consumption import Consuming
from skate.data.dataset.conversion import Converting
from skate.data.dataset.description import Describing
from skate.data.dataset.file_writers import Writing
from skate.data.dataset.schema import Schema
from skate.data.dataset.shuffles import Shuffling
from skate.data.dataset.splits import Splitting
from skate.data.dataset.summary import Summarizing
from skate.data.dataset.transforms import Transforms


class Dataset(
    Transforms, Columns, Shuffling, Consuming, Splitting, Writing, Describing, Summarizing, Converting
):
    """Rows in blocks, described by a plan that runs when a result is requested."""


class MaterializedDataset(Dataset):
    """A dataset whose blocks have been computed and are held."""

    def num_blocks(self) -> int:
        """The number of blocks in the dataset."""
        plan: object = self._plan
        return len(plan.bundles)  # type: ignore[attr-defined]


DatasetBase._lazy = Dataset
DatasetBase._materialized = MaterializedDataset

__all__ = ["Dataset", "MaterializedDataset", "Schema"]
