"""The encoder of flat observations, and the dense layers that configurations describe."""

from __future__ import annotations

from typing import Any

import torch

from skate.rllib.core.columns import Columns
from skate.rllib.core.models.base import ENCODER_OUT, Encoder
from skate.rllib.core.models.torch.base import TorchModel
from skate.rllib.core.models.torch.primitives import TorchMLP, as_float


class TorchMLPEncoder(TorchModel, Encoder):
    """Dense layers over flat observations.

    Args:
        config: An ``MLPEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.net = mlp_of(config)

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        observations = inputs[Columns.OBS]
        if observations.dtype is not torch.float32:
            observations = as_float(observations)
        return {ENCODER_OUT: self.net.mlp(observations)}


def mlp_of(config: Any) -> TorchMLP:
    """Build the dense layers that an MLP config describes."""
    return TorchMLP(
        input_dim=config.first_input_dim(),
        hidden_layer_dims=config.hidden_layer_dims,
        hidden_layer_activation=config.hidden_layer_activation,
        hidden_layer_use_bias=config.hidden_layer_use_bias,
        hidden_layer_use_layernorm=config.hidden_layer_use_layernorm,
        hidden_layer_weights_initializer=config.hidden_layer_weights_initializer,
        hidden_layer_weights_initializer_config=config.hidden_layer_weights_initializer_config,
        hidden_layer_bias_initializer=config.hidden_layer_bias_initializer,
        hidden_layer_bias_initializer_config=config.hidden_layer_bias_initializer_config,
        output_dim=config.output_layer_dim,
        output_use_bias=config.output_layer_use_bias,
        output_layer_use_layernorm=config.output_layer_use_layernorm,
        output_activation=config.output_layer_activation,
        output_weights_initializer=config.output_layer_weights_initializer,
        output_weights_initializer_config=config.output_layer_weights_initializer_config,
        output_bias_initializer=config.output_layer_bias_initializer,
        output_bias_initializer_config=config.output_layer_bias_initializer_config,
    )
