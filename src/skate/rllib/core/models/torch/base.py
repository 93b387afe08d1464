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
