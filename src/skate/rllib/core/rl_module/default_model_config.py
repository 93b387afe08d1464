"""DefaultModelConfig: the sizes of the default networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

_Initializer = str | Callable[..., Any] | None
_Arguments = dict[str, Any] | None


@dataclass
class DefaultModelConfig:
    """Sizes, activations and initializers of the networks that algorithms build by themselves.

    Initializers are names of functions in ``torch.nn.init`` that end with an underscore, or functions; None keeps
    torch's own. Activations are ``"tanh"``, ``"relu"``, ``"silu"``, ``"elu"``, or ``"linear"``.

    Args:
        fcnet_hiddens: Sizes of the encoder's dense layers.
        fcnet_activation: Activation of these layers.
        fcnet_use_layernorm: Put a LayerNorm into each of them.
        conv_filters: One ``[channels, kernel, stride]`` per convolution; None chooses by the size of the image.
        conv_activation: Activation of the convolutions.
        head_fcnet_hiddens: Sizes of hidden layers in each head.
        head_fcnet_activation: Activation of these layers.
        head_fcnet_use_layernorm: Put a LayerNorm into each of them.
        free_log_std: Make the log standard deviations parameters that do not depend on observations.
        log_std_clip_param: Bound of the log standard deviations, up and down.
        vf_share_layers: Use one encoder for policy and value function.
        use_lstm: Put an LSTM behind the encoder.
        max_seq_len: Length in steps of the sequences that an LSTM is trained on.
        lstm_cell_size: Number of cells of the LSTM.
        lstm_use_prev_action: Taken for compatibility; use the PrevActionsPrevRewards connector.
        lstm_use_prev_reward: Taken for compatibility; use the PrevActionsPrevRewards connector.
        fusionnet_hiddens: Sizes of the layers that join several encoders.
        fusionnet_activation: Activation of these layers.
    """

    fcnet_hiddens: Sequence[int] = field(default_factory=lambda: [256, 256])
    fcnet_activation: str = "tanh"
    fcnet_kernel_initializer: _Initializer = None
    fcnet_kernel_initializer_kwargs: _Arguments = None
    fcnet_bias_initializer: _Initializer = None
    fcnet_bias_initializer_kwargs: _Arguments = None
    fcnet_use_layernorm: bool = False
    conv_filters: Sequence[Any] | None = None
    conv_activation: str = "relu"
    conv_kernel_initializer: _Initializer = None
    conv_kernel_initializer_kwargs: _Arguments = None
    conv_bias_initializer: _Initializer = None
    conv_bias_initializer_kwargs: _Arguments = None
    head_fcnet_hiddens: Sequence[int] = field(default_factory=list)
    head_fcnet_activation: str = "relu"
    head_fcnet_kernel_initializer: _Initializer = None
    head_fcnet_kernel_initializer_kwargs: _Arguments = None
    head_fcnet_bias_initializer: _Initializer = None
    head_fcnet_bias_initializer_kwargs: _Arguments = None
    head_fcnet_use_layernorm: bool = False
    free_log_std: bool = False
    log_std_clip_param: float = 20.0
    vf_share_layers: bool = True
    use_lstm: bool = False
    max_seq_len: int = 20
    lstm_cell_size: int = 256
    lstm_use_prev_action: bool = False
    lstm_use_prev_reward: bool = False
    lstm_kernel_initializer: _Initializer = None
    lstm_kernel_initializer_kwargs: _Arguments = None
    lstm_bias_initializer: _Initializer = None
    lstm_bias_initializer_kwargs: _Arguments = None
    fusionnet_hiddens: Sequence[int] = field(default_factory=lambda: [256, 256])
    fusionnet_activation: str = "tanh"
    fusionnet_kernel_initializer: _Initializer = None
    fusionnet_kernel_initializer_kwargs: _Arguments = None
    fusionnet_bias_initializer: _Initializer = None
    fusionnet_bias_initializer_kwargs: _Arguments = None
