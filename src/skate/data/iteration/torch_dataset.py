"""Batches as a `torch.utils.data.IterableDataset` of features and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skate.data.block.names import known
from skate.data.iteration import tensors


@dataclass(frozen=True)
class Layout:
    """The assignment of columns to tensors."""

    label: str | None
    features: Any
    label_dtype: Any
    feature_dtypes: Any
    unsqueeze_label: bool
    unsqueeze_features: bool

    def arranged(self, table: pa.Table) -> tuple[Any, Any]:
        """Features and label of one batch."""
        label = None
        if self.label is not None:
            label = _column(table, self.label, self.label_dtype)
            if self.unsqueeze_label:
                label = label.unsqueeze(1)
        return self._features(table), label

    def _features(self, table: pa.Table) -> Any:
        wanted = self.features
        if not wanted:
            wanted = [name for name in table.column_names if name != self.label]
        if isinstance(wanted, Mapping):
            return {key: self._joined(table, names, self._dtype(key)) for key, names in wanted.items()}
        if any(isinstance(each, (list, tuple)) for each in wanted):
            return [self._joined(table, names, self._dtype(at)) for at, names in enumerate(wanted)]
        return self._joined(table, wanted, self.feature_dtypes)

    def _dtype(self, key: Any) -> Any:
        if isinstance(self.feature_dtypes, (list, tuple, Mapping)):
            return self.feature_dtypes[key]
        return self.feature_dtypes

    def _joined(self, table: pa.Table, names: Any, dtype: Any) -> Any:
        import torch  # only programs that use tensors have torch

        parts = [_column(table, name, dtype) for name in names]
        if len(parts) == 1 and not self.unsqueeze_features:
            return parts[0]
        wide = [part.unsqueeze(1) if self.unsqueeze_features or part.ndim == 1 else part for part in parts]
        kind = wide[0].dtype
        for part in wide[1:]:
            kind = torch.promote_types(kind, part.dtype)
        return torch.cat([part.to(kind) for part in wide], dim=1)


def _column(table: pa.Table, name: str, dtype: Any) -> Any:
    column = table.column(known(table.column_names, name))
    found = tensors.of_column(name, column, None, dtype)
    if isinstance(found, list):
        raise TypeError(
            f"column {name!r} has values of {column.type}, which cannot form one tensor; leave it out of "
            "feature_columns, or use "
            f"iter_torch_batches with a collate_fn"
        )
    return found


def torch_dataset(open_loop: Callable[[], Iterable[Any]]) -> Any:
    """Return an IterableDataset; each iteration is a new loop over the batches."""
    from torch.utils.data import IterableDataset  # only programs that use one have torch

    class Batches(IterableDataset[Any]):
        """Features and labels, one batch at a time."""

        def __iter__(self) -> Iterator[Any]:
            return iter(open_loop())

    return Batches()
