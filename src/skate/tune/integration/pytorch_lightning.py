"""Reports of Lightning's metrics and checkpoints to a trial."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch.callbacks import Callback

from skate.train.checkpoint import Checkpoint
from skate.tune.trainable.session import report

#: Lightning's hooks, each called with the trainer and the module.
_HOOKS = frozenset(name.removeprefix("on_") for name in dir(Callback) if name.startswith("on_"))


class TuneCallback(Callback):
    """Base class of callbacks that act on some hooks; subclasses define `_handle`.

    Args:
        on: one or several hooks, without the prefix "on_", such as "validation_end".

    Raises:
        ValueError: there is no such hook.
    """

    def __init__(self, on: str | Sequence[str] = "validation_end") -> None:
        super().__init__()
        self._on = []
        for hook in [on] if isinstance(on, str) else on:
            short = hook.removeprefix("on_")
            if short not in _HOOKS:
                raise ValueError(f"Invalid hook selected: {hook}. Must be one of {', '.join(sorted(_HOOKS))}")
            self._on.append(f"on_{short}")
            setattr(self, f"on_{short}", self._called)

    def _called(self, trainer: Any, pl_module: Any = None, *more: Any, **kwargs: Any) -> None:
        self._handle(trainer, pl_module)

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _handle(trainer, pl_module)")


class TuneReportCheckpointCallback(TuneCallback):
    """Reports metrics to the trial, with a Lightning checkpoint, when one of its hooks is called.

    Args:
        metrics: names of Lightning's metrics, or a dict of new names to those; all by default.
        filename: the name of Lightning's file in the trial's checkpoint.
        save_checkpoints: True to save checkpoints.
        on: the hook, or several, such as "validation_end".

    Raises:
        ValueError: there is no such hook.
    """

    def __init__(
        self,
        metrics: str | Sequence[str] | Mapping[str, str] | None = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,
        on: str | Sequence[str] = "validation_end",
    ) -> None:
        super().__init__(on)
        named = [metrics] if isinstance(metrics, str) else metrics
        self._metrics = dict(named) if isinstance(named, Mapping) else {name: name for name in named or ()}
        self._filename, self._save = filename, save_checkpoints

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        metrics = {name: value.item() for name, value in trainer.callback_metrics.items()}
        found = (
            {new: metrics[name] for new, name in self._metrics.items() if name in metrics}
            if self._metrics
            else metrics
        )
        if not found:
            return
        if not self._save:
            report(found)
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
            trainer.save_checkpoint(os.path.join(folder, self._filename))
            report(found, checkpoint=Checkpoint.from_directory(folder))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics to the trial, without checkpoints."""

    def __init__(self, metrics: Any = None, on: str | Sequence[str] = "validation_end") -> None:
        super().__init__(metrics=metrics, save_checkpoints=False, on=on)
