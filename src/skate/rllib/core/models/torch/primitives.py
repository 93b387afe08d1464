"""Stacks of layers: TorchMLP and TorchCNN.

The names of the parameters (``mlp.0.weight``, ``cnn.1.bias``) are part of every checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Activation = str | Callable[[], nn.Module] | None
Initializer = str | Callable[..., Any] | None

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "softmax": nn.Softmax,
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
}
_EPSILON = 0.001


def get_activation_fn(name: Activation = None, framework: str = "torch") -> Callable[[], nn.Module] | None:
    """Return the class of an activation.

    Args:
        name: ``"relu"``, ``"tanh"``, ``"elu"``, ``"gelu"``, ``"silu"``, ``"swish"``, the name of a class in
            ``torch.nn``, such a class, or ``"linear"``.
        framework: Only ``"torch"``.

    Returns:
        The class, or None for ``"linear"`` and None.

    Raises:
        ValueError: the name is unknown.
    """
    if name is None or callable(name):
        return name
    if name.lower() == "linear":
        return None
    found: Callable[[], nn.Module] | None = getattr(nn, name, None) or _ACTIVATIONS.get(name.lower())
    if found is None:
        raise ValueError(
            f"unknown activation {name!r}; use one of {', '.join(sorted(_ACTIVATIONS))} or linear"
        )
    return found


def normc_initializer(std: float = 1.0) -> Callable[[torch.Tensor], None]:
    """Return a function that fills a weight in place with normal numbers, each row scaled to one length.

    Args:
        std: The length of each row.
    """

    def fill(tensor: torch.Tensor) -> None:
        with torch.no_grad():
            tensor.normal_(0, 1)
            tensor *= std / tensor.square().sum(1, keepdim=True).sqrt()

    return fill


def get_initializer_fn(name: Initializer, framework: str = "torch") -> Callable[..., Any] | None:
    """Return the function that fills a tensor in place.

    Args:
        name: A function of ``torch.nn.init`` that ends with an underscore, its name, or None.
        framework: Only ``"torch"``.

    Raises:
        ValueError: the name is unknown, or does not work in place.
    """
    if name is None or callable(name):
        return name
    found = getattr(nn.init, name.lower(), None) if name.endswith("_") else None
    if found is None:
        raise ValueError(
            f"unknown initializer {name!r}; use a function of torch.nn.init that works in place, "
            'for example "orthogonal_"'
        )
    return found  # type: ignore[no-any-return]


def fill(tensor: Tensor, name: Initializer, arguments: dict[str, Any] | None) -> None:
    """Fill a parameter by the given initializer; without one it keeps torch's default."""
    initializer = get_initializer_fn(name)
    if initializer is not None:
        initializer(tensor, **(arguments or {}))


#: Where a layer has the hooks that see its calls.
HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"


def is_watched(layer: nn.Module) -> bool:
    """True if a hook of the layer, or a method of this object, wants to see its calls."""
    held = layer.__dict__
    return bool(
        held["_forward_hooks"]
        or held["_forward_pre_hooks"]
        or held["_backward_hooks"]
        or held["_backward_pre_hooks"]
        or "forward" in held
    )


class TorchMLP(nn.Module):
    """A stack of dense layers, optionally with an output layer of its own activation.

    Args:
        input_dim: Length of one input row.
        hidden_layer_dims: Sizes of the hidden layers.
        hidden_layer_activation: Activation after every hidden layer. Default ``"relu"``.
        hidden_layer_use_bias: Default True.
        hidden_layer_use_layernorm: Put a LayerNorm before every hidden activation. Default False.
        hidden_layer_weights_initializer: Fills the weights of hidden layers. Default: torch's.
        hidden_layer_weights_initializer_config: Arguments of the initializer.
        hidden_layer_bias_initializer: Fills the biases of hidden layers. Default: torch's.
        hidden_layer_bias_initializer_config: Arguments of the initializer.
        output_dim: Size of the output layer. Default: no output layer.
        output_use_bias: Default True.
        output_layer_use_layernorm: Put a LayerNorm after the output layer. Default False.
        output_activation: Default ``"linear"``.
        output_weights_initializer: Fills the weights of the output layer. Default: torch's.
        output_weights_initializer_config: Arguments of the initializer.
        output_bias_initializer: Fills the bias of the output layer. Default: torch's.
        output_bias_initializer_config: Arguments of the initializer.
    """

    def __init__(
        self,
        *,
        input_dim: int,
        hidden_layer_dims: Sequence[int],
        hidden_layer_activation: Activation = "relu",
        hidden_layer_use_bias: bool = True,
        hidden_layer_use_layernorm: bool = False,
        hidden_layer_weights_initializer: Initializer = None,
        hidden_layer_weights_initializer_config: dict[str, Any] | None = None,
        hidden_layer_bias_initializer: Initializer = None,
        hidden_layer_bias_initializer_config: dict[str, Any] | None = None,
        output_dim: int | None = None,
        output_use_bias: bool = True,
        output_layer_use_layernorm: bool = False,
        output_activation: Activation = "linear",
        output_weights_initializer: Initializer = None,
        output_weights_initializer_config: dict[str, Any] | None = None,
        output_bias_initializer: Initializer = None,
        output_bias_initializer_config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.input_dim = input_dim
        layers: list[nn.Module] = []
        width = input_dim
        hidden_activation = get_activation_fn(hidden_layer_activation)
        for size in hidden_layer_dims:
            layer = nn.Linear(width, size, bias=hidden_layer_use_bias)
            fill(layer.weight, hidden_layer_weights_initializer, hidden_layer_weights_initializer_config)
            if hidden_layer_use_bias:
                fill(layer.bias, hidden_layer_bias_initializer, hidden_layer_bias_initializer_config)
            layers.append(layer)
            if hidden_layer_use_layernorm:
                layers.append(nn.LayerNorm(size, eps=_EPSILON))
            if hidden_activation is not None:
                layers.append(hidden_activation())
            width = size
        if output_dim:
            layer = nn.Linear(width, output_dim, bias=output_use_bias)
            fill(layer.weight, output_weights_initializer, output_weights_initializer_config)
            if output_use_bias:
                fill(layer.bias, output_bias_initializer, output_bias_initializer_config)
            layers.append(layer)
            if output_layer_use_layernorm:
                layers.append(nn.LayerNorm(output_dim, eps=_EPSILON))
            activation = get_activation_fn(output_activation)
            if activation is not None:
                layers.append(activation())
        self.mlp = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.mlp(inputs)
        return out


class TorchCNN(nn.Module):
    """A stack of 2D convolutions over images of shape ``(B, H, W, C)``.

    Args:
        input_dims: Height, width and channels of one image.
        cnn_filter_specifiers: One ``[channels, kernel, stride]`` or ``[channels, kernel, stride, padding]`` per
            layer. Padding is ``"same"`` (the default) or ``"valid"``.
        cnn_use_bias: Default True.
        cnn_use_layernorm: Put a LayerNorm over the channels before every activation. Default False.
        cnn_activation: Default ``"relu"``.
        cnn_kernel_initializer: Fills the kernels. Default: torch's.
        cnn_kernel_initializer_config: Arguments of the initializer.
        cnn_bias_initializer: Fills the biases. Default: torch's.
        cnn_bias_initializer_config: Arguments of the initializer.
    """

    def __init__(
        self,
        *,
        input_dims: Sequence[int],
        cnn_filter_specifiers: Sequence[Sequence[Any]],
        cnn_use_bias: bool = True,
        cnn_use_layernorm: bool = False,
        cnn_activation: Activation = "relu",
        cnn_kernel_initializer: Initializer = None,
        cnn_kernel_initializer_config: dict[str, Any] | None = None,
        cnn_bias_initializer: Initializer = None,
        cnn_bias_initializer_config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        activation = get_activation_fn(cnn_activation)
        height, width, depth = (int(size) for size in input_dims)
        layers: list[nn.Module] = []
        for specifier in cnn_filter_specifiers:
            channels, kernel, stride, padding = filter_of(specifier)
            borders, (height, width) = padding_of((height, width), kernel, stride, padding)
            if padding == "same":
                layers.append(nn.ZeroPad2d(borders))
            layer = nn.Conv2d(depth, channels, kernel, stride, bias=cnn_use_bias)
            fill(layer.weight, cnn_kernel_initializer, cnn_kernel_initializer_config)
            if layer.bias is not None:
                fill(layer.bias, cnn_bias_initializer, cnn_bias_initializer_config)
            layers.append(layer)
            if cnn_use_layernorm:
                layers.append(LayerNorm1D(channels, eps=_EPSILON))
            if activation is not None:
                layers.append(activation())
            depth = channels
        self.cnn = nn.Sequential(*layers)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.cnn(inputs.permute(0, 3, 1, 2))
        return out.permute(0, 2, 3, 1)


class LayerNorm1D(nn.Module):
    """A LayerNorm over the channels of every pixel.

    Args:
        num_features: Number of channels.
        **kwargs: Arguments of ``torch.nn.LayerNorm``.
    """

    def __init__(self, num_features: int, **kwargs: Any) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(num_features, **kwargs)

    def forward(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.layer_norm(inputs.permute(0, 2, 3, 1))
        return out.permute(0, 3, 1, 2)


def filter_of(specifier: Sequence[Any]) -> tuple[int, tuple[int, int], tuple[int, int], str]:
    """Return channels, kernel, stride and padding of one filter specifier."""
    if len(specifier) not in (3, 4):
        raise ValueError(
            f"a filter is [channels, kernel, stride] or [channels, kernel, stride, padding], got {specifier}"
        )
    padding = specifier[3] if len(specifier) == 4 else "same"
    return int(specifier[0]), _pair(specifier[1]), _pair(specifier[2]), str(padding)


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def padding_of(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], padding: str
) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Return the borders (left, right, top, bottom) around an image, and the size that comes out of a layer.

    Args:
        size: Height and width that go in.
        kernel: Height and width of the kernel.
        stride: Steps down and to the right.
        padding: ``"same"`` keeps ``size / stride`` rounded up; ``"valid"`` adds no border.
    """
    if padding == "valid":
        down, right = (math.ceil((n - k + 1) / s) for n, k, s in zip(size, kernel, stride, strict=True))
        return (0, 0, 0, 0), (down, right)
    outs = [math.ceil(n / s) for n, s in zip(size, stride, strict=True)]
    missing = [(o - 1) * s + k - n for o, s, k, n in zip(outs, stride, kernel, size, strict=True)]
    top, left = missing[0] // 2, missing[1] // 2
    return (left, missing[1] - left, top, missing[0] - top), (outs[0], outs[1])


def as_float(observations: Tensor) -> Tensor:
    """Return observations as float32, which layers need; images come as uint8."""
    return observations if observations.is_floating_point() else observations.to(torch.float32)
