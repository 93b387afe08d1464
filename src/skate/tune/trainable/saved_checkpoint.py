"""The return value of `Trainable.save`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.train.checkpoint import Checkpoint


class SavedCheckpoint(Checkpoint):
    """A checkpoint that a trainable has saved, with the last result of the trainable.

    Args:
        saved: the checkpoint.
        metrics: the last result.
    """

    def __init__(self, saved: Checkpoint, metrics: Mapping[str, Any] | None = None) -> None:
        super().__init__(saved.path, saved._filesystem)
        self.metrics = dict(metrics or {})

    @property
    def checkpoint(self) -> SavedCheckpoint:
        """The checkpoint itself."""
        return self
