"""Batches as tensors of torch, TensorFlow and JAX: methods shared by datasets and iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from skate.data.collate_fn import format_of
from skate.data.iteration import jax_batches, tensors, tf_batches
from skate.data.iteration.torch_dataset import Layout, torch_dataset


class FrameworkBatches:
    """Mixin with methods that return batches as tensors, for classes with `_iter_batches` and `schema`."""

    #: Like `iter_batches`, with `finish`: a function applied to each batch in the background.
    _iter_batches: Any

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        device: Any = "auto",
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Iterate over batches as dicts of column name to torch tensor, prepared in a background thread. Small batches
        of numbers are only read there: the loop makes their tensors itself, which is faster than to wait for another thread.

        A column that torch has no type for becomes a list with one value per row; arrays of different shapes
        become a list of tensors.

        Args:
            prefetch_batches: the number of batches to prepare ahead.
            batch_size: rows per batch; None for whole blocks.
            dtypes: a torch dtype for all tensors, or a dict of column name to dtype.
            device: the device for the tensors; "auto" is the device of the training worker, else the first GPU, else
                the CPU.
            collate_fn: converts each batch: a function of a dict of arrays, or a `CollateFn`.
            drop_last: leave the last batch out if it is not full.
            local_shuffle_buffer_size: the least number of rows to hold, from which batches are drawn at random.
            local_shuffle_seed: the seed of the random numbers.
            pin_memory: copy tensors to a GPU through page-locked memory.

        Raises ValueError for `dtypes` beside a `collate_fn`.
        """
        if collate_fn is not None and dtypes is not None:
            raise ValueError(
                "collate_fn cannot be used with dtypes: it makes its own tensors; convert them in collate_fn"
            )
        if collate_fn is not None and not callable(collate_fn):
            raise _unsupported(collate_fn)
        place = tensors.device_for(device)
        given = "pyarrow" if collate_fn is None else format_of(collate_fn)

        def finish(batch: Any) -> Any:
            if collate_fn is None:
                made: Any = tensors.of_table(batch, dtypes)
            else:
                made = collate_fn(tensors.writable(batch))
            return tensors.moved(made, place, pin_memory)

        found: Iterable[Any] = self._iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=given,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            finish=finish,
            finish_is_quick=collate_fn is None and place.type == "cpu",
        )
        return found

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Any = None,
        label_column_dtype: Any = None,
        feature_column_dtypes: Any = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """Return a `torch.utils.data.IterableDataset` of (features, label) per batch; the label is None without
        `label_column`.

        Args:
            label_column: the column of labels.
            feature_columns: a list of columns for one tensor of shape (rows, columns), a list of lists or a
                dict of lists for several; None for all columns but the label.
            label_column_dtype: a torch dtype.
            feature_column_dtypes: a torch dtype, or one for each tensor, in the same form as `feature_columns`.
            unsqueeze_label_tensor: labels of shape (rows, 1) rather than (rows,).
            unsqueeze_feature_tensors: the same for features of a single column.
        """
        layout = Layout(
            label_column,
            feature_columns,
            label_column_dtype,
            feature_column_dtypes,
            unsqueeze_label_tensor,
            unsqueeze_feature_tensors,
        )
        return torch_dataset(
            lambda: self._iter_batches(
                prefetch_batches=prefetch_batches,
                batch_size=batch_size,
                batch_format="pyarrow",
                drop_last=drop_last,
                local_shuffle_buffer_size=local_shuffle_buffer_size,
                local_shuffle_seed=local_shuffle_seed,
                finish=layout.arranged,
            )
        )

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: Any = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Any]:
        """Iterate over batches as dicts of column name to TensorFlow tensor; options as for `iter_batches`.

        `dtypes` is a TensorFlow dtype for all columns, or a dict of column name to dtype.
        """
        convert = tf_batches.converter(dtypes)
        found: Iterable[Any] = self._iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format="numpy",
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            finish=convert,
        )
        return found

    def to_tf(
        self,
        feature_columns: str | list[str],
        label_columns: str | list[str],
        *,
        additional_columns: str | list[str] | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: Any = None,
        label_type_spec: Any = None,
        additional_type_spec: Any = None,
    ) -> Any:
        """Return a `tf.data.Dataset` of (features, labels) per batch, or (features, labels, additional).

        One column given by name is a tensor, a list of columns a dict of tensors. Types and shapes are inferred
        from the first rows unless a `tf.TypeSpec` is given. Raises UnknownColumn for columns that do not exist.
        """
        wanted = (
            (feature_columns, feature_type_spec),
            (label_columns, label_type_spec),
            *([] if additional_columns is None else [(additional_columns, additional_type_spec)]),
        )
        return tf_batches.dataset(
            lambda: self._iter_batches(
                prefetch_batches=prefetch_batches,
                batch_size=batch_size,
                batch_format="numpy",
                drop_last=drop_last,
                local_shuffle_buffer_size=local_shuffle_buffer_size,
                local_shuffle_seed=local_shuffle_seed,
            ),
            wanted,
        )

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int = 256,
        dtypes: Any = None,
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        paddings: Any = None,
        synchronize_batches: bool = False,
    ) -> Iterable[Any]:
        """Iterate over batches as dicts of column name to JAX array; options as for `iter_batches`.

        Args:
            dtypes: a dtype for all columns, or a dict of column name to dtype.
            collate_fn: a `CollateFn` that converts each batch.
            paddings: a number, or a dict of column name to number, that fills the last batch up to `batch_size`.
            synchronize_batches: accepted for compatibility; all workers of one machine see the same number of batches.
        """
        convert = jax_batches.converter(dtypes, collate_fn, paddings, batch_size)
        given = "numpy" if collate_fn is None else format_of(collate_fn)
        found: Iterable[Any] = self._iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=given,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            finish=convert,
        )
        return found


def _unsupported(collate_fn: object) -> ValueError:
    return ValueError(f"Unsupported collate function: {type(collate_fn)}; pass a function or a CollateFn")
