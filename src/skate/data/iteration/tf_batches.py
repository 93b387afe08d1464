"""Batches as TensorFlow tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from skate.data.block.names import known
from skate.installed import require


def tensorflow() -> Any:
    """Import TensorFlow. Raises ImportError with the purpose it is needed for."""
    return require("tensorflow", "iter_tf_batches()")


def converter(dtypes: Any = None) -> Callable[[dict[str, np.ndarray]], dict[str, Any]]:
    """Return a function from a dict of arrays to a dict of tensors."""
    tf = tensorflow()

    def convert(batch: dict[str, np.ndarray]) -> dict[str, Any]:
        wanted = dtypes if isinstance(dtypes, Mapping) else dict.fromkeys(batch, dtypes)
        for name in wanted:
            known(list(batch), name)
        return {name: tensor(tf, values, wanted.get(name)) for name, values in batch.items()}

    return convert


def tensor(tf: Any, values: np.ndarray, dtype: Any = None) -> Any:
    """Convert one column; arrays of different lengths become a ragged tensor."""
    if values.dtype == object and len(values) and all(isinstance(row, np.ndarray) for row in values):
        if all(row.shape == values[0].shape for row in values):
            values = np.stack(list(values))
        else:
            made = tf.ragged.stack([tf.convert_to_tensor(row) for row in values])
            return made if dtype is None else tf.cast(made, dtype)
    if values.dtype == object:
        return tf.convert_to_tensor(values.tolist(), dtype=dtype)
    made = tf.convert_to_tensor(np.array(values))
    return made if dtype is None else tf.cast(made, dtype)


def dataset(open_loop: Callable[[], Iterable[Any]], wanted: Sequence[tuple[Any, Any]]) -> Any:
    """Return a `tf.data.Dataset` of tuples; `wanted` lists for each part the columns (a name or a list) and their
    type, or None.
    """
    tf = tensorflow()

    def part(batch: dict[str, Any], names: Any) -> Any:
        if isinstance(names, str):
            return tensor(tf, batch[known(list(batch), names)])
        return {name: tensor(tf, batch[known(list(batch), name)]) for name in names}

    def batches() -> Iterator[Any]:
        for batch in open_loop():
            yield tuple(part(batch, names) for names, _ in wanted)

    signature = []
    first: Any = None
    for names, spec in wanted:
        if spec is None:
            if first is None:
                first = next(iter(open_loop()), None)
                if first is None:
                    raise ValueError(
                        "the dataset has no rows, so the tensor types must be given as type specs"
                    )
            if isinstance(names, str):
                spec = _spec(tf, names, first)
            else:
                spec = {name: _spec(tf, name, first) for name in names}
        signature.append(spec)
    return tf.data.Dataset.from_generator(batches, output_signature=tuple(signature))


def _spec(tf: Any, name: str, batch: dict[str, Any]) -> Any:
    values = batch[known(list(batch), name)]
    if values.dtype == object and len(values) and isinstance(values[0], np.ndarray):
        kind = values[0].dtype
        if any(row.shape != values[0].shape for row in values):
            return tf.RaggedTensorSpec(shape=(None,) * (values[0].ndim + 1), dtype=tf.as_dtype(kind))
        values = np.stack(list(values))
    kind = tf.string if values.dtype == object else tf.as_dtype(values.dtype)
    return tf.TensorSpec(shape=(None, *values.shape[1:]), dtype=kind, name=name)
