"""The types of a batch of rows, for type hints."""

from __future__ import annotations

from typing import Union

#: A numpy array, a `pandas.DataFrame`, a `pyarrow.Table`, or a dict of arrays.
DataBatchType = Union["numpy.ndarray", "pyarrow.Table", "pandas.DataFrame", dict[str, "numpy.ndarray"]]  # type: ignore[name-defined]  # noqa: F821

__all__ = ["DataBatchType"]
