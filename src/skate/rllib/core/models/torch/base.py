"""TorchModel: base of every default network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import torch
from torch import nn


class TorchModel(nn.Module):
    """A network that is built from a config; subclasses write ``_forward``.

    Args:
        config: The config that the network was built from, kept as ``self.config``.
    """

    framework = "torch"

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # A call less for every network in every step, unless a subclass has a forward() of its own.
        inherits = cls.forward is TorchModel.forward or cls.forward.__name__ == "_forward"
        if "_forward" in vars(cls) and inherits:
            cls.forward = cls._forward  # type: ignore[method-assign]

    def forward(self, inputs: Any, **kwargs: Any) -> Any:
        return self._forward(inputs, **kwargs)

    def _forward(self, inputs: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has to write _forward(inputs)")

    def get_initial_state(self) -> Any:
        """Return the state at the start of an episode; empty for networks without memory."""
        return {}

    def get_num_parameters(self) -> tuple[int, int]:
        """Return the numbers of trainable and of frozen parameters."""
        trainable = sum(p.numel() for p in self.parameters() if p.requires_grad)
        return trainable, sum(p.numel() for p in self.parameters()) - trainable

    @torch.no_grad()
    def _set_to_dummy_weights(self, value_sequence: Sequence[float] = (-0.02, -0.01, 0.01, 0.02)) -> None:
        """Fill the trainable parameters with these numbers in turn, so that networks of one form give equal outputs."""
        trainable = [each for each in self.parameters() if each.requires_grad]
        for parameter, value in zip(trainable, cycle(value_sequence), strict=False):
            parameter.fill_(value)
