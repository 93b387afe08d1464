"""TorchModel: base of every default network."""

from __future__ import annotations

from typing import Any

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
