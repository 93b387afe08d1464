"""Iterators over datasets, as programs written for Ray import them."""

from __future__ import annotations

from skate.data.collate_fn import ArrowBatchCollateFn as ArrowBatchCollateFn
from skate.data.collate_fn import CollateFn as CollateFn
from skate.data.collate_fn import NumpyBatchCollateFn as NumpyBatchCollateFn
from skate.data.collate_fn import PandasBatchCollateFn as PandasBatchCollateFn
from skate.data.iteration.iterator import DataIterator as DataIterator
from skate.data.iteration.iterator import DatasetIterator as DatasetIterator
