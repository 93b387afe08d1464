"""torchvision transforms over columns of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns as values_of
from skate.data.preprocessors.base import ColumnPreprocessor


class TorchVisionPreprocessor(ColumnPreprocessor):
    """Applies a function such as `torchvision.transforms.Compose([...])` to each array of columns, or to a batch
    of them.

    Args:
        columns: columns of arrays.
        transform: a function from an array to a tensor or an array; with `batched`, from all arrays of a batch
            together.
        output_columns: names of the results, by default the same as `columns`.
        batched: True if the function takes a batch.
    """

    _result_form = "numpy"
    _is_fittable = False

    def __init__(
        self,
        columns: Sequence[str],
        transform: Callable[[Any], Any],
        output_columns: Sequence[str] | None = None,
        batched: bool = False,
    ) -> None:
        super().__init__(columns, output_columns)
        self.torchvision_transform = transform
        self.batched = batched

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(columns={self.columns!r}, output_columns={self.output_columns!r}, "
            f"transform={self.torchvision_transform!r})"
        )

    def _column(self, name: str, column: pa.ChunkedArray) -> Any:
        apply = self.torchvision_transform
        if self.batched:
            return values_of.from_array(values_of.as_ndarray(apply(np.array(values_of.to_numpy(column)))))
        made = [None if each is None else apply(np.array(each)) for each in values_of.to_values(column)]
        return values_of.from_values([None if each is None else values_of.as_ndarray(each) for each in made])
