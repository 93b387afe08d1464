"""Columns as torch tensors.

A column that torch has no type for (text, bytes, points in time, structs, any Python objects) becomes a list
with one value per row; arrays or lists of different lengths become a list of tensors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data.block import columns
from skate.data.block.names import known

#: The kinds of numpy dtypes that torch also has.
_NUMBERS = "biufc"


def of_table(table: pa.Table, dtypes: Any = None) -> dict[str, Any]:
    """Convert the columns of a block to tensors. Raises UnknownColumn if `dtypes` names an unknown column."""
    wanted = dtypes if isinstance(dtypes, Mapping) else {}
    for name in wanted:
        known(table.column_names, name)
    return {
        name: of_column(name, table.column(at), wanted.get(name), dtypes if wanted is not dtypes else None)
        for at, name in enumerate(table.column_names)
    }


def of_column(name: str, column: pa.ChunkedArray, dtype: Any = None, otherwise: Any = None) -> Any:
    """Convert one column to a tensor, or to a list if that is impossible.

    `otherwise` is the dtype where `dtype` is None. Raises TypeError if a dtype is given for a column that cannot be a tensor.
    """
    values = columns.to_numpy(column)
    found = of_array(values, dtype or otherwise)
    if found is None:
        if dtype is not None:
            raise TypeError(
                f"column {name!r} cannot be converted to {dtype}: its values are {column.type}; convert them, "
                "or write a collate_fn"
            )
        found = columns.to_values(column)
    return found


def of_array(values: np.ndarray, dtype: Any = None) -> Any:
    """Convert an array to a tensor with memory of its own, arrays of several shapes to a list of tensors, other
    values to None.
    """
    import torch  # only programs that use tensors have torch

    if values.dtype.kind in _NUMBERS:
        # Blocks are read-only and may be shared with other processes, so a tensor that used their memory
        # could not be written to.
        made = torch.from_numpy(np.array(values, order="C"))
        return made if dtype is None else made.to(dtype)
    if values.dtype != object or not len(values):
        return None
    if not all(isinstance(row, np.ndarray) and row.dtype.kind in _NUMBERS for row in values):
        return None
    if all(row.shape == values[0].shape for row in values):
        return of_array(np.stack(list(values)), dtype)
    return [of_array(row, dtype) for row in values]


def writable(batch: Any) -> Any:
    """Return a dict of writable arrays; other batches unchanged."""
    if not isinstance(batch, dict):
        return batch
    return {name: each if each.flags.writeable else np.array(each) for name, each in batch.items()}


def device_for(device: Any) -> Any:
    """Resolve "auto" to a device: that of the training worker, else the first GPU of this process, else the CPU."""
    import torch  # imported only if used

    if device != "auto":
        return torch.device(device)
    training = sys.modules.get("skate.train.worker.session")
    if training is not None and training.active():
        # a library beside this one, already loaded in workers of Train
        from skate.train.torch import get_device

        return get_device()
    return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")


def moved(value: Any, device: Any, pin: bool = False) -> Any:
    """Move the tensors inside dicts, lists and tuples to a device; other values stay."""
    import torch  # imported only if used

    if isinstance(value, torch.Tensor):
        if pin and torch.cuda.is_available() and not value.is_cuda:
            value = value.pin_memory()
        return value if value.device == device else value.to(device, non_blocking=pin)
    if type(value) is dict:
        return {key: moved(each, device, pin) for key, each in value.items()}
    if type(value) in (list, tuple):
        if value and not isinstance(value[0], (torch.Tensor, list, tuple, dict)):
            return value
        return type(value)(moved(each, device, pin) for each in value)
    if isinstance(value, Mapping) and hasattr(value, "to") and device.type != "cpu":
        return value.to(device)  # the output of tokenizers
    return value
