"""Functions that turn a batch into input for a training loop: `ray.data.collate_fn`.

The base class of a collate function decides the format of its batches.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skate.data.iteration import tensors

if TYPE_CHECKING:
    import pyarrow as pa

DataBatchType = TypeVar("DataBatchType")


class CollateFn(Generic[DataBatchType]):
    """Turns a batch into input for a training loop; tensors in the result are moved to the device afterwards."""

    def __call__(self, batch: DataBatchType) -> Any:
        """Return the training loop's input for a batch."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, batch)")


class ArrowBatchCollateFn(CollateFn[Any]):
    """Base class of functions that receive batches as pyarrow Tables."""


class NumpyBatchCollateFn(CollateFn[Any]):
    """Base class of functions that receive batches as dicts of arrays."""


class PandasBatchCollateFn(CollateFn[Any]):
    """Base class of functions that receive batches as DataFrames."""


class DefaultCollateFn(ArrowBatchCollateFn):
    """Converts columns to torch tensors.

    Args:
        dtypes: a torch dtype for all columns, or a dict of column name to dtype.
        combine_chunks: one tensor per column, rather than a list with one per chunk of the table.
        num_workers: accepted for compatibility; the work is done in the thread that prepares batches.
    """

    def __init__(self, dtypes: Any = None, combine_chunks: bool = False, num_workers: int = 4) -> None:
        self.dtypes = dtypes
        self.combine_chunks = combine_chunks
        self.num_workers = num_workers

    def __call__(self, batch: pa.Table) -> dict[str, Any]:
        """Return a dict of column name to tensors."""
        if self.combine_chunks:
            return tensors.of_table(batch, self.dtypes)
        parts: dict[str, Any] = {name: [] for name in batch.column_names}
        for piece in batch.to_batches() or [batch]:
            for name, made in tensors.of_table(_table(piece), self.dtypes).items():
                parts[name].append(made)
        return parts


def is_tensor_batch_type(batch: Any) -> bool:
    """Return True if a batch is a torch tensor, a sequence of them, or a dict of either."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(batch, Mapping):
        return all(_of_tensors(each, torch.Tensor) for each in batch.values())
    return _of_tensors(batch, torch.Tensor, depth=2)


def _of_tensors(value: Any, kind: type, depth: int = 1) -> bool:
    if isinstance(value, (list, tuple)):
        return depth > 0 and all(_of_tensors(each, kind, depth - 1) for each in value)
    return isinstance(value, kind)


def _table(piece: Any) -> pa.Table:
    import pyarrow as pa  # a program that only defines a subclass needs no Arrow

    return piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece])


def format_of(collate: Any) -> str:
    """Return the batch format that a function or a CollateFn receives."""
    if isinstance(collate, ArrowBatchCollateFn):
        return "pyarrow"
    return "pandas" if isinstance(collate, PandasBatchCollateFn) else "numpy"
