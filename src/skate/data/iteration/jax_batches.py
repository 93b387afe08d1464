"""Batches as JAX arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skate.data.block.names import known
from skate.data.iteration.tensors import writable
from skate.installed import require


def converter(dtypes: Any, collate: Callable[[Any], Any] | None, paddings: Any, batch_size: int) -> Any:
    """Return a function from a batch to a dict of JAX arrays, or to the result of `collate`."""
    if collate is not None and (dtypes is not None or paddings is not None):
        raise ValueError(
            "dtypes and paddings cannot be combined with collate_fn, which builds its own arrays; apply them there"
        )
    jnp = require("jax.numpy", "iter_jax_batches()")

    def convert(batch: Any) -> Any:
        if collate is not None:
            return collate(writable(batch))
        made = {}
        for each in (dtypes, paddings):
            for name in each if isinstance(each, Mapping) else ():
                known(list(batch), name)
        for name, values in batch.items():
            if values.dtype == object and len(values) and isinstance(values[0], np.ndarray):
                values = np.stack(list(values))
            if values.dtype.kind not in "biufc":
                raise TypeError(
                    f"column {name!r} holds {values.dtype}, which JAX has no type for; drop it, or write a collate_fn"
                )
            filling = paddings.get(name) if isinstance(paddings, Mapping) else paddings
            if filling is not None and len(values) < batch_size:
                missing = [(0, batch_size - len(values))] + [(0, 0)] * (values.ndim - 1)
                values = np.pad(values, missing, constant_values=filling)
            dtype = dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes
            made[name] = jnp.asarray(np.array(values), dtype=dtype)
        return made

    return convert
