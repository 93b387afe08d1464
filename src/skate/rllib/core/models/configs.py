"""Configs of encoders and heads: what a catalog chooses, and what builds the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from skate.rllib.core.models.base import ModelConfig, check_framework
from skate.rllib.core.models.torch.cnn_transpose import TorchCNNTransposeHead
from skate.rllib.core.models.torch.encoder import (
    TorchActorCriticEncoder,
    TorchCNNEncoder,
    TorchGRUEncoder,
    TorchLSTMEncoder,
    TorchMLPEncoder,
    TorchMultiStreamEncoder,
    TorchStatefulActorCriticEncoder,
)
from skate.rllib.core.models.torch.heads import TorchFreeLogStdMLPHead, TorchMLPHead
from skate.rllib.core.models.torch.primitives import Activation, Initializer, filter_of, padding_of

__all__ = [
    "ActorCriticEncoderConfig",
    "CNNEncoderConfig",
    "CNNTransposeHeadConfig",
    "FreeLogStdMLPHeadConfig",
    "MLPEncoderConfig",
    "MLPHeadConfig",
    "ModelConfig",
    "MultiStreamEncoderConfig",
    "RecurrentEncoderConfig",
]


@dataclass
class _MLPConfig(ModelConfig):
    """The fields of every stack of dense layers."""

    hidden_layer_dims: Sequence[int] = (256, 256)
    hidden_layer_use_bias: bool = True
    hidden_layer_activation: Activation = "relu"
    hidden_layer_use_layernorm: bool = False
    hidden_layer_weights_initializer: Initializer = None
    hidden_layer_weights_initializer_config: dict[str, Any] | None = None
    hidden_layer_bias_initializer: Initializer = None
    hidden_layer_bias_initializer_config: dict[str, Any] | None = None
    output_layer_dim: int | None = None
    output_layer_use_layernorm: bool = False
    output_layer_use_bias: bool = True
    output_layer_activation: Activation = "linear"
    output_layer_weights_initializer: Initializer = None
    output_layer_weights_initializer_config: dict[str, Any] | None = None
    output_layer_bias_initializer: Initializer = None
    output_layer_bias_initializer_config: dict[str, Any] | None = None
    clip_log_std: bool = False
    log_std_clip_param: float = 20.0

    @property
    def output_dims(self) -> tuple[int, ...]:
        if self.output_layer_dim is not None:
            return (int(self.output_layer_dim),)
        if not self.hidden_layer_dims:
            raise ValueError(f"{type(self).__name__} needs hidden_layer_dims or output_layer_dim")
        return (int(self.hidden_layer_dims[-1]),)


@dataclass
class MLPEncoderConfig(_MLPConfig):
    """Dense layers over flat observations."""

    def build(self, framework: str = "torch") -> TorchMLPEncoder:
        check_framework(framework)
        return TorchMLPEncoder(self)


@dataclass
class MLPHeadConfig(_MLPConfig):
    """Dense layers over embeddings."""

    def build(self, framework: str = "torch") -> TorchMLPHead:
        check_framework(framework)
        return TorchMLPHead(self)


@dataclass
class FreeLogStdMLPHeadConfig(_MLPConfig):
    """Dense layers for means, and log standard deviations that do not depend on observations."""

    def build(self, framework: str = "torch") -> TorchFreeLogStdMLPHead:
        check_framework(framework)
        if self.output_dims[0] % 2:
            raise ValueError(
                f"free log standard deviations need an even output_layer_dim, got {self.output_dims[0]}"
            )
        return TorchFreeLogStdMLPHead(self)


@dataclass
class CNNEncoderConfig(ModelConfig):
    """Convolutions over images of height, width and channels."""

    cnn_filter_specifiers: Sequence[Sequence[Any]] = field(
        default_factory=lambda: [[16, [4, 4], 2], [32, [4, 4], 2], [64, [8, 8], 2]]
    )
    cnn_use_bias: bool = True
    cnn_activation: Activation = "relu"
    cnn_use_layernorm: bool = False
    cnn_kernel_initializer: Initializer = None
    cnn_kernel_initializer_config: dict[str, Any] | None = None
    cnn_bias_initializer: Initializer = None
    cnn_bias_initializer_config: dict[str, Any] | None = None
    flatten_at_end: bool = True

    @property
    def output_dims(self) -> tuple[int, ...]:
        if self.input_dims is None or len(self.input_dims) != 3:
            raise ValueError(
                f"CNNEncoderConfig needs input_dims of height, width, channels; got {self.input_dims}"
            )
        height, width, depth = (int(size) for size in self.input_dims)
        for specifier in self.cnn_filter_specifiers:
            depth, kernel, stride, padding = filter_of(specifier)
            _, (height, width) = padding_of((height, width), kernel, stride, padding)
        return (height * width * depth,) if self.flatten_at_end else (height, width, depth)

    def build(self, framework: str = "torch") -> TorchCNNEncoder:
        check_framework(framework)
        if min(self.output_dims) < 1:
            raise ValueError(
                f"the filters {list(self.cnn_filter_specifiers)} leave nothing of an image of shape "
                f"{self.input_dims}; give fewer layers or smaller strides in conv_filters"
            )
        return TorchCNNEncoder(self)


@dataclass
class CNNTransposeHeadConfig(ModelConfig):
    """A dense layer and transposed convolutions, from embeddings to images of height, width and channels."""

    initial_image_dims: Sequence[int] = field(default_factory=lambda: [4, 4, 96])
    initial_dense_weights_initializer: Initializer = None
    initial_dense_weights_initializer_config: dict[str, Any] | None = None
    initial_dense_bias_initializer: Initializer = None
    initial_dense_bias_initializer_config: dict[str, Any] | None = None
    cnn_transpose_filter_specifiers: Sequence[Sequence[Any]] = field(
        default_factory=lambda: [[48, [4, 4], 2], [24, [4, 4], 2], [3, [4, 4], 2]]
    )
    cnn_transpose_use_bias: bool = True
    cnn_transpose_activation: Activation = "relu"
    cnn_transpose_use_layernorm: bool = False
    cnn_transpose_kernel_initializer: Initializer = None
    cnn_transpose_kernel_initializer_config: dict[str, Any] | None = None
    cnn_transpose_bias_initializer: Initializer = None
    cnn_transpose_bias_initializer_config: dict[str, Any] | None = None

    @property
    def output_dims(self) -> tuple[int, ...]:
        height, width, depth = (int(size) for size in self.initial_image_dims)
        for specifier in self.cnn_transpose_filter_specifiers:
            depth, _, (down, right), _ = filter_of(specifier)
            height, width = height * down, width * right
        return height, width, depth

    def build(self, framework: str = "torch") -> TorchCNNTransposeHead:
        check_framework(framework)
        if self.input_dims is None or len(self.input_dims) != 1:
            raise ValueError(
                f"CNNTransposeHeadConfig needs input_dims of one number, the length of an embedding; got {self.input_dims}"
            )
        return TorchCNNTransposeHead(self)


@dataclass
class RecurrentEncoderConfig(ModelConfig):
    """An LSTM or GRU over embeddings of a tokenizer."""

    recurrent_layer_type: str = "lstm"
    hidden_dim: int = 256
    num_layers: int = 1
    batch_major: bool = True
    hidden_weights_initializer: Initializer = None
    hidden_weights_initializer_config: dict[str, Any] | None = None
    use_bias: bool = True
    hidden_bias_initializer: Initializer = None
    hidden_bias_initializer_config: dict[str, Any] | None = None
    tokenizer_config: ModelConfig | None = None

    @property
    def output_dims(self) -> tuple[int, ...]:
        return (self.hidden_dim,)

    def build(self, framework: str = "torch") -> TorchLSTMEncoder | TorchGRUEncoder:
        check_framework(framework)
        if self.recurrent_layer_type == "lstm":
            return TorchLSTMEncoder(self)
        if self.recurrent_layer_type == "gru":
            return TorchGRUEncoder(self)
        raise ValueError(f'recurrent_layer_type is "lstm" or "gru", got {self.recurrent_layer_type!r}')


@dataclass
class ActorCriticEncoderConfig(ModelConfig):
    """One encoder for policy and value function, or one for each."""

    base_encoder_config: ModelConfig | None = None
    shared: bool = True
    inference_only: bool = False

    @property
    def output_dims(self) -> tuple[int, ...]:
        if self.base_encoder_config is None:
            raise ValueError("ActorCriticEncoderConfig needs base_encoder_config")
        return self.base_encoder_config.output_dims

    def build(self, framework: str = "torch") -> TorchActorCriticEncoder | TorchStatefulActorCriticEncoder:
        check_framework(framework)
        if isinstance(self.base_encoder_config, RecurrentEncoderConfig):
            return TorchStatefulActorCriticEncoder(self)
        return TorchActorCriticEncoder(self)


@dataclass
class MultiStreamEncoderConfig(ModelConfig):
    """One encoder per input, joined by dense layers."""

    base_encoder_configs: dict[str, ModelConfig] = field(default_factory=dict)
    hidden_layer_dims: Sequence[int] = (256, 256, 256)
    hidden_layer_use_bias: bool = True
    hidden_layer_activation: Activation = "relu"
    hidden_layer_weights_initializer: Initializer = None
    hidden_layer_weights_initializer_config: dict[str, Any] | None = None
    hidden_layer_bias_initializer: Initializer = None
    hidden_layer_bias_initializer_config: dict[str, Any] | None = None
    output_layer_dim: int | None = None
    output_layer_use_bias: bool = True
    output_layer_activation: Activation = "linear"
    output_layer_weights_initializer: Initializer = None
    output_layer_weights_initializer_config: dict[str, Any] | None = None
    output_layer_bias_initializer: Initializer = None
    output_layer_bias_initializer_config: dict[str, Any] | None = None

    @property
    def output_dims(self) -> tuple[int, ...]:
        if self.output_layer_dim is not None:
            return (self.output_layer_dim,)
        if self.hidden_layer_dims:
            return (int(self.hidden_layer_dims[-1]),)
        return (sum(int(config.output_dims[0]) for config in self.base_encoder_configs.values()),)

    def build(self, framework: str = "torch") -> TorchMultiStreamEncoder:
        check_framework(framework)
        if not self.base_encoder_configs:
            raise ValueError(
                "MultiStreamEncoderConfig needs base_encoder_configs, a dict of at least one encoder"
            )
        return TorchMultiStreamEncoder(self)
