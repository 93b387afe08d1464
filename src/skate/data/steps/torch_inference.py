"""The base class of models that `map_batches` runs over tensors of a device: `ray.data.util.torch_inference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skate.data.collate_fn import is_tensor_batch_type
from skate.data.iteration import tensors

Batch = Any
#: A torch tensor, or a list or dict of them.
Tensors = Any


class TorchInference:
    """A model that `map_batches` runs: batches become tensors, which are moved to a device and back.

    Subclasses define `process_on_device`, and load the model in `initialize`. For each batch, `collate` makes tensors,
    `process_on_device` gets them on the device, and `finalize` makes the new batch of its tensors, which are on the
    CPU again. `collate` and `process_on_device` may return a pair of tensors and a value for the next step. Nothing
    records gradients.

    Args:
        args, kwargs: `fn_constructor_args` and `fn_constructor_kwargs`, which go to `initialize`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.initialize(*args, **kwargs)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Load the model; called once per actor."""

    def get_device(self) -> Any:
        """Return the device of the tensors: the first GPU of the process. Raises RuntimeError without one; define this
        method to run the model on the CPU.
        """
        import torch  # imported only if used

        if not torch.cuda.is_available():
            raise RuntimeError(
                "CUDA is not available on this system: this process has no GPU; request one with "
                f"map_batches(..., num_gpus=1), or define {type(self).__name__}.get_device() to return "
                "torch.device('cpu')"
            )
        return torch.device("cuda")

    def collate(self, input_batch: Batch) -> Any:
        """Return a batch of arrays as tensors of the CPU, by column. Raises TypeError for other batches."""
        is_arrays = isinstance(input_batch, dict) and all(
            isinstance(column, np.ndarray) for column in input_batch.values()
        )
        if not is_arrays:
            raise TypeError(
                "the default collate only supports NumPy batches (a dict of arrays), and got "
                f"{type(input_batch).__name__}: use batch_format='numpy' in map_batches, or define collate"
            )
        found = {}
        for name, column in input_batch.items():
            found[name] = tensors.of_array(column)
            if found[name] is None:
                raise TypeError(
                    f"the column {name!r} has no tensor type ({column.dtype}): define {type(self).__name__}.collate, or "
                    "drop the column with select_columns"
                )
        return found

    def process_on_device(self, input_batch: Batch, collated_tensors: Tensors, collated_other: object) -> Any:
        """Return the tensors that the model makes of the tensors of `collate`, which are on the device."""
        raise NotImplementedError(f"`{type(self).__name__}` must implement `process_on_device`.")

    def finalize(self, input_batch: Batch, output_tensors: Tensors, output_other: object) -> Batch:
        """Return tensors as arrays, in the same dicts and lists. Raises TypeError for other values."""
        if output_other is not None:
            raise TypeError(
                f"process_on_device returned a pair, whose second value ({type(output_other).__name__}) the default "
                f"finalize cannot use: define {type(self).__name__}.finalize"
            )
        return _arrays(output_tensors)

    def __call__(self, batch: Batch) -> Batch:
        import torch  # imported only if used

        device = self.__dict__.get("_device")
        if device is None:
            device = self._device = torch.device(self.get_device())
        kept = dict(batch) if isinstance(batch, Mapping) else batch
        with torch.no_grad():
            collated, other = self._checked(self.collate, batch)
            moved = _each(collated, lambda value: value.to(device), joins=True)
            made, made_other = self._checked(self.process_on_device, kept, moved, other)
            return self.finalize(kept, _each(made, lambda value: value.to("cpu")), made_other)

    def _checked(self, step: Callable[..., Any], *given: Any) -> tuple[Any, Any]:
        """Return a step's tensors and its other value. Raises ValueError if it returned no tensors."""
        found = step(*given)
        made, other = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
        if not is_tensor_batch_type(made):
            raise ValueError(
                f"`{type(self).__name__}.{step.__name__}` must return tensors (one, a list or a dict of them), or a pair "
                f"of those and another value; got {type(made)}"
            )
        return made, other


def _each(value: Tensors, change: Callable[[Any], Any], joins: bool = False) -> Any:
    """Change each tensor of a structure; with `joins`, a list of tensors as a value of a dict becomes one tensor."""
    if isinstance(value, Mapping):
        return {name: _joined(each, change) if joins else _each(each, change) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_joined(each, change) if joins else _each(each, change) for each in value)
    return change(value)


def _joined(value: Tensors, change: Callable[[Any], Any]) -> Any:
    import torch  # imported only if used

    return change(torch.cat(list(value)) if isinstance(value, (list, tuple)) else value)


def _arrays(value: Tensors) -> Any:
    """Return a structure of tensors as one of arrays."""
    import torch  # imported only if used

    def array(tensor: object) -> Any:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"the default finalize only supports tensors in dicts and lists, and got {type(tensor).__name__}: "
                "define finalize"
            )
        return tensor.detach().cpu().numpy()

    return _each(value, array)
