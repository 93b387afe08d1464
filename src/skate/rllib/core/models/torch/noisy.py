"""Dense layers with noise in their weights, by which a network explores (Fortunato et al. 2018, arXiv:1706.10295)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


class NoisyLinear(nn.Linear):
    """A dense layer that adds noise to its weights; how much is learned.

    The noise of a weight is the product of one number for its input and one for its output. Without noise the layer is the
    dense one that it was made of, with the same names of parameters.

    Args:
        dense: The layer whose weights are the means.
        sigma0: The scale of the noise at the start, before it is divided by the root of the number of inputs.
    """

    def __init__(self, dense: nn.Linear, sigma0: float = 0.5) -> None:
        super().__init__(dense.in_features, dense.out_features, bias=dense.bias is not None)
        self.weight, self.bias = dense.weight, dense.bias
        size = sigma0 / math.sqrt(self.in_features)
        self.weight_sigma = nn.Parameter(torch.full_like(self.weight, size))
        self.bias_sigma = None if dense.bias is None else nn.Parameter(torch.full_like(self.bias, size))
        self._noise: tuple[Tensor, Tensor] | None = None

    def draw(self, generator: torch.Generator | None) -> None:
        """Draw the noise of the coming passes.

        Args:
            generator: The source of random numbers; torch's own if it is None.
        """
        drawn = torch.randn(self.in_features + self.out_features, generator=generator).to(self.weight.device)
        scaled = drawn.sign() * drawn.abs().sqrt()
        self._noise = scaled[: self.in_features], scaled[self.in_features :]

    def drop(self) -> None:
        """Return to the means."""
        self._noise = None

    def forward(self, input: Tensor) -> Tensor:
        means = super().forward(input)
        if self._noise is None:
            return means
        before, after = self._noise
        return means + after * functional.linear(input * before, self.weight_sigma, self.bias_sigma)


def make_noisy(network: nn.Module, sigma0: float) -> None:
    """Replace the dense layers of a network, in place, by noisy ones with the same weights."""
    for name, layer in list(network.named_children()):
        if type(layer) is nn.Linear:
            setattr(network, name, NoisyLinear(layer, sigma0))
        else:
            make_noisy(layer, sigma0)


@contextlib.contextmanager
def noise_in(networks: Sequence[nn.Module], generator: torch.Generator | None) -> Iterator[None]:
    """Draw the noise of some networks for the passes inside the block.

    Args:
        networks: Networks with noisy layers.
        generator: The source of random numbers; torch's own if it is None.
    """
    layers = [layer for network in networks for layer in network.modules() if isinstance(layer, NoisyLinear)]
    for layer in layers:
        layer.draw(generator)
    try:
        yield
    finally:
        for layer in layers:
            layer.drop()
