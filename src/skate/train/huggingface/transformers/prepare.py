"""A `transformers.Trainer` that takes batches of datasets of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from torch.utils.data import DataLoader, IterableDataset
from transformers import Trainer

from skate.data.iteration.iterator import DataIterator, Loop

T = TypeVar("T", bound=Trainer)


class _Batches(IterableDataset[Any]):
    """Batches unchanged, for a loader that must not rebatch them."""

    def __init__(self, batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


def prepare_trainer(trainer: T) -> T:
    """Make a trainer accept datasets of the run as `train_dataset` and `eval_dataset`.

    Pass either the result of `iter_torch_batches`, whose batches go to the model unchanged, or the shard
    itself, which is divided into batches of the trainer's sizes. Datasets of other kinds are treated as before.
    Returns the same trainer.

    Raises:
        TypeError: it is not a `transformers.Trainer`.
    """
    if not isinstance(trainer, Trainer):
        raise TypeError(f"prepare_trainer takes a transformers.Trainer, not {type(trainer).__name__}")
    base: Any = type(trainer)
    trainer.__class__ = type(base.__name__, (_OfTheRun, base), {"__module__": base.__module__})
    return trainer


class _OfTheRun:
    """Put before the class of a trainer: the loaders for datasets of the run."""

    train_dataset: Any
    eval_dataset: Any
    args: Any
    _train_batch_size: int

    def get_train_dataloader(self) -> Any:
        found = _loader(self.train_dataset, self._train_batch_size)
        return super().get_train_dataloader() if found is None else found  # type: ignore[misc]

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        chosen = self.eval_dataset if eval_dataset is None else eval_dataset
        if isinstance(chosen, str):
            chosen = self.eval_dataset[chosen]
        found = _loader(chosen, self.args.eval_batch_size)
        return super().get_eval_dataloader(eval_dataset) if found is None else found  # type: ignore[misc]


def _loader(dataset: Any, batch_size: int) -> DataLoader[Any] | None:
    if isinstance(dataset, DataIterator):
        dataset = dataset.iter_torch_batches(batch_size=batch_size)
    if not isinstance(dataset, Loop):
        return None
    return DataLoader(_Batches(dataset), batch_size=None, collate_fn=_as_it_is)


def _as_it_is(batch: Any) -> Any:
    return batch
