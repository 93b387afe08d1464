"""Decoders: from embeddings to images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from skate.rllib.core.models.torch.base import TorchModel
from skate.rllib.core.models.torch.primitives import (
    Activation,
    Initializer,
    LayerNorm1D,
    fill,
    filter_of,
    get_activation_fn,
)

_EPSILON = 0.001


class Stride2D(nn.Module):
    """Puts zeros between the pixels of images of shape ``(B, C, H, W)``.

    Args:
        stride: Distance of two pixels, down and to the right.
    """

    def __init__(self, stride: tuple[int, int]) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, inputs: Tensor) -> Tensor:
        down, right = self.stride
        *batch, height, width = inputs.shape
        out = inputs.new_zeros(*batch, (height - 1) * down + 1, (width - 1) * right + 1)
        out[..., ::down, ::right] = inputs
        return out


class TorchCNNTranspose(nn.Module):
    """A stack of transposed convolutions over images of shape ``(B, H, W, C)``; each multiplies the size by its stride.

    The last layer has neither a LayerNorm nor an activation, and always has a bias.

    Args:
        input_dims: Height, width and channels of one image.
        cnn_transpose_filter_specifiers: One ``[channels, kernel, stride]`` per layer.
        cnn_transpose_use_bias: Default True.
        cnn_transpose_activation: Default ``"relu"``.
        cnn_transpose_use_layernorm: Put a LayerNorm over the channels before every activation. Default False.
        cnn_transpose_kernel_initializer: Fills the kernels. Default: torch's.
        cnn_transpose_kernel_initializer_config: Arguments of the initializer.
        cnn_transpose_bias_initializer: Fills the biases. Default: torch's.
        cnn_transpose_bias_initializer_config: Arguments of the initializer.
    """

    def __init__(
        self,
        *,
        input_dims: Sequence[int],
        cnn_transpose_filter_specifiers: Sequence[Sequence[Any]],
        cnn_transpose_use_bias: bool = True,
        cnn_transpose_activation: Activation = "relu",
        cnn_transpose_use_layernorm: bool = False,
        cnn_transpose_kernel_initializer: Initializer = None,
        cnn_transpose_kernel_initializer_config: dict[str, Any] | None = None,
        cnn_transpose_bias_initializer: Initializer = None,
        cnn_transpose_bias_initializer_config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        activation = get_activation_fn(cnn_transpose_activation)
        depth = int(input_dims[2])
        layers: list[nn.Module] = []
        for number, specifier in enumerate(cnn_transpose_filter_specifiers, start=1):
            is_last = number == len(cnn_transpose_filter_specifiers)
            channels, kernel, stride, _ = filter_of(specifier)
            layer = nn.ConvTranspose2d(
                depth,
                channels,
                kernel,
                padding=(kernel[0] - 1, kernel[1] - 1),
                bias=cnn_transpose_use_bias or is_last,
            )
            fill(layer.weight, cnn_transpose_kernel_initializer, cnn_transpose_kernel_initializer_config)
            if layer.bias is not None:
                fill(layer.bias, cnn_transpose_bias_initializer, cnn_transpose_bias_initializer_config)
            layers += [Stride2D(stride), nn.ZeroPad2d(_borders(kernel, stride)), layer]
            if cnn_transpose_use_layernorm and not is_last:
                layers.append(LayerNorm1D(channels, eps=_EPSILON))
            if activation is not None and not is_last:
                layers.append(activation())
            depth = channels
        self.cnn_transpose = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.cnn_transpose(inputs.permute(0, 3, 1, 2))
        return out.permute(0, 2, 3, 1)


class TorchCNNTransposeHead(TorchModel):
    """A dense layer that makes a small image, and transposed convolutions that make it larger.

    Args:
        config: A ``CNNTransposeHeadConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        height, width, channels = (int(size) for size in config.initial_image_dims)
        self._first_image = (height, width, channels)
        self.initial_dense = nn.Linear(int(config.input_dims[0]), height * width * channels)
        fill(
            self.initial_dense.weight,
            config.initial_dense_weights_initializer,
            config.initial_dense_weights_initializer_config,
        )
        fill(
            self.initial_dense.bias,
            config.initial_dense_bias_initializer,
            config.initial_dense_bias_initializer_config,
        )
        self.cnn_transpose_net = TorchCNNTranspose(
            input_dims=self._first_image,
            cnn_transpose_filter_specifiers=config.cnn_transpose_filter_specifiers,
            cnn_transpose_use_bias=config.cnn_transpose_use_bias,
            cnn_transpose_activation=config.cnn_transpose_activation,
            cnn_transpose_use_layernorm=config.cnn_transpose_use_layernorm,
            cnn_transpose_kernel_initializer=config.cnn_transpose_kernel_initializer,
            cnn_transpose_kernel_initializer_config=config.cnn_transpose_kernel_initializer_config,
            cnn_transpose_bias_initializer=config.cnn_transpose_bias_initializer,
            cnn_transpose_bias_initializer_config=config.cnn_transpose_bias_initializer_config,
        )

    def _forward(self, inputs: Tensor, **kwargs: Any) -> Tensor:
        image: Tensor = self.initial_dense(inputs).reshape(-1, *self._first_image)
        out: Tensor = self.cnn_transpose_net(image)
        # Images are numbers from 0 to 1; weights around 0 begin in the middle.
        return torch.add(out, 0.5)


def _borders(kernel: tuple[int, int], stride: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the borders left, right, at the top and at the bottom around a strided image."""
    vertical, horizontal = (k - 1 + s - 1 for k, s in zip(kernel, stride, strict=True))
    right, bottom = horizontal // 2, vertical // 2
    return horizontal - right, right, vertical - bottom, bottom
