"""A checkpoint with a torch model."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch

from skate.train.framework_checkpoint import FrameworkCheckpoint


class TorchCheckpoint(FrameworkCheckpoint):
    """A folder with a model, or its weights, in one file."""

    MODEL_FILENAME = "model.pt"

    @classmethod
    def from_state_dict(cls, state_dict: dict[str, Any], *, preprocessor: Any = None) -> TorchCheckpoint:
        """Create a checkpoint of a model's weights."""
        return cls._of(state_dict, preprocessor)

    @classmethod
    def from_model(cls, model: torch.nn.Module, *, preprocessor: Any = None) -> TorchCheckpoint:
        """Create a checkpoint of a whole model; its class must be importable where it is loaded."""
        return cls._of(model, preprocessor)

    @classmethod
    def _of(cls, what: Any, preprocessor: Any) -> TorchCheckpoint:
        folder = tempfile.mkdtemp(prefix="checkpoint_")
        torch.save(what, os.path.join(folder, cls.MODEL_FILENAME))
        made = cls(folder)
        if preprocessor is not None:
            made.set_preprocessor(preprocessor)
        return made

    def get_model(self, model: torch.nn.Module | None = None) -> torch.nn.Module:
        """Load the model; weights are loaded into `model`, which is required if the checkpoint has only weights.

        Raises:
            ValueError: the checkpoint has only weights, and no model was given.
        """
        with self.as_directory() as folder:
            found = torch.load(
                os.path.join(folder, self.MODEL_FILENAME), weights_only=model is not None, map_location="cpu"
            )
        if isinstance(found, torch.nn.Module):
            return found
        if model is None:
            raise ValueError("the checkpoint contains only weights; pass their model to get_model")
        model.load_state_dict({name.removeprefix("module."): value for name, value in found.items()})
        return model
