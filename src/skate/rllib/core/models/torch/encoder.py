"""Encoders: from observations to embeddings."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from skate.rllib.core.columns import Columns
from skate.rllib.core.models.base import (
    ACTOR,
    CRITIC,
    ENCODER_OUT,
    ActorCriticEncoder,
    Encoder,
    StatefulActorCriticEncoder,
)
from skate.rllib.core.models.torch.base import TorchModel
from skate.rllib.core.models.torch.dense_pass import PlainCalls
from skate.rllib.core.models.torch.mlp_encoder import TorchMLPEncoder as TorchMLPEncoder
from skate.rllib.core.models.torch.primitives import (
    TorchCNN,
    as_float,
    fill,
    get_activation_fn,
    is_watched,
)

State = dict[str, Any]


class TorchCNNEncoder(TorchModel, Encoder):
    """Convolutions over images of shape ``(B, H, W, C)``.

    Args:
        config: A ``CNNEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        cnn = TorchCNN(
            input_dims=config.input_dims,
            cnn_filter_specifiers=config.cnn_filter_specifiers,
            cnn_use_bias=config.cnn_use_bias,
            cnn_use_layernorm=config.cnn_use_layernorm,
            cnn_activation=config.cnn_activation,
            cnn_kernel_initializer=config.cnn_kernel_initializer,
            cnn_kernel_initializer_config=config.cnn_kernel_initializer_config,
            cnn_bias_initializer=config.cnn_bias_initializer,
            cnn_bias_initializer_config=config.cnn_bias_initializer_config,
        )
        self.net = nn.Sequential(cnn, nn.Flatten()) if config.flatten_at_end else nn.Sequential(cnn)

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {ENCODER_OUT: self.net(as_float(inputs[Columns.OBS]))}


class _RecurrentEncoder(TorchModel, Encoder):
    """A tokenizer followed by a recurrent layer, over batches of shape ``(B, T, ...)``."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        tokenizer = config.tokenizer_config
        self.tokenizer: nn.Module | None = None if tokenizer is None else tokenizer.build(framework="torch")
        width = config.input_dims if tokenizer is None else tokenizer.output_dims
        self._input_size = int(width[0])
        self._plain_calls = PlainCalls()

    def _tokens(self, inputs: dict[str, Any]) -> Tensor:
        observations: Tensor = inputs[Columns.OBS]
        if self.tokenizer is None:
            return as_float(observations)
        rows = observations.reshape(-1, *observations.shape[2:])
        return self._embedded(rows).reshape(*observations.shape[:2], -1)

    def _embedded(self, rows: Tensor) -> Tensor:
        """Return what the tokenizer returns for rows."""
        assert self.tokenizer is not None
        out: Tensor | None = self._plain_calls(self.tokenizer, rows)
        return self.tokenizer({Columns.OBS: rows})[ENCODER_OUT] if out is None else out

    def _arguments(self) -> dict[str, Any]:
        return {
            "input_size": self._input_size,
            "hidden_size": self.config.hidden_dim,
            "num_layers": self.config.num_layers,
            "batch_first": self.config.batch_major,
            "bias": self.config.use_bias,
        }

    def _fill(self, layer: nn.RNNBase) -> None:
        config = self.config
        for name, parameter in layer.named_parameters():
            if name.startswith("weight"):
                fill(parameter, config.hidden_weights_initializer, config.hidden_weights_initializer_config)
            else:
                fill(parameter, config.hidden_bias_initializer, config.hidden_bias_initializer_config)

    def _is_plain(self, layer: nn.RNNBase, observations: Tensor) -> bool:
        """True for one layer of torch's own class on a CPU, which nothing watches."""
        return (
            observations.is_cpu
            and self.config.num_layers == 1
            and self.config.batch_major
            and type(layer) in (nn.LSTM, nn.GRU)
            and not is_watched(layer)
        )

    def _is_one_step(self, layer: nn.RNNBase, observations: Tensor) -> bool:
        """True while sampling on a CPU: one step of a plain layer, for which its cell alone takes half the time."""
        is_step = observations.shape[1] == 1 and not torch.is_grad_enabled()
        return is_step and self._is_plain(layer, observations)

    def _token(self, inputs: dict[str, Any]) -> Tensor:
        """Return `_tokens` of the only step, without its dimension."""
        observations: Tensor = inputs[Columns.OBS].squeeze(1)
        return as_float(observations) if self.tokenizer is None else self._embedded(observations)

    def _zeros(self) -> Tensor:
        return torch.zeros(self.config.num_layers, self.config.hidden_dim)


class TorchLSTMEncoder(_RecurrentEncoder):
    """An LSTM over embeddings of observations. Its state is ``{"h", "c"}``, each of shape ``(B, layers, cells)``.

    Args:
        config: A ``RecurrentEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.lstm = nn.LSTM(**self._arguments())
        self._fill(self.lstm)

    def get_initial_state(self) -> State:
        return {"h": self._zeros(), "c": self._zeros()}

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        state = inputs[Columns.STATE_IN]
        if self._is_one_step(self.lstm, inputs[Columns.OBS]):
            held = state["h"].squeeze(1), state["c"].squeeze(1)
            weights: Any = self.lstm._parameters.values()
            h, c = torch.lstm_cell(self._token(inputs), held, *weights)
            h, c = h.unsqueeze(1), c.unsqueeze(1)
            return {ENCODER_OUT: h, Columns.STATE_OUT: {"h": h, "c": c}}
        before = (state["h"].transpose(0, 1).contiguous(), state["c"].transpose(0, 1).contiguous())
        out, (h, c) = self.lstm(self._tokens(inputs), before)
        return {ENCODER_OUT: out, Columns.STATE_OUT: {"h": h.transpose(0, 1), "c": c.transpose(0, 1)}}


class TorchGRUEncoder(_RecurrentEncoder):
    """A GRU over embeddings of observations. Its state is ``{"h"}``, of shape ``(B, layers, cells)``.

    Args:
        config: A ``RecurrentEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.gru = nn.GRU(**self._arguments())
        self._fill(self.gru)

    def get_initial_state(self) -> State:
        return {"h": self._zeros()}

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        state = inputs[Columns.STATE_IN]["h"]
        if self._is_one_step(self.gru, inputs[Columns.OBS]):
            weights: Any = self.gru._parameters.values()
            h = torch.gru_cell(self._token(inputs), state.squeeze(1), *weights).unsqueeze(1)
            return {ENCODER_OUT: h, Columns.STATE_OUT: {"h": h}}
        before = state.transpose(0, 1).contiguous()
        out, h = self.gru(self._tokens(inputs), before)
        return {ENCODER_OUT: out, Columns.STATE_OUT: {"h": h.transpose(0, 1)}}


class TorchActorCriticEncoder(TorchModel, ActorCriticEncoder):
    """One encoder for policy and value function, or one for each.

    Args:
        config: An ``ActorCriticEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        build = config.base_encoder_config.build
        if config.shared:
            self.encoder: TorchModel = build(framework="torch")
        else:
            self.actor_encoder: TorchModel = build(framework="torch")
            self.critic_encoder: TorchModel | None = (
                None if config.inference_only else build(framework="torch")
            )

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if self.config.shared:
            out = self.encoder(inputs, **kwargs)[ENCODER_OUT]
            both = {ACTOR: out} if self.config.inference_only else {ACTOR: out, CRITIC: out}
        else:
            both = {ACTOR: self.actor_encoder(inputs, **kwargs)[ENCODER_OUT]}
            if not self.config.inference_only and self.critic_encoder is not None:
                both[CRITIC] = self.critic_encoder(inputs, **kwargs)[ENCODER_OUT]
        return {ENCODER_OUT: both}


class TorchStatefulActorCriticEncoder(TorchModel, StatefulActorCriticEncoder):
    """Recurrent encoders for policy and value function.

    Two separate encoders have their states under ``"actor"`` and ``"critic"``.

    Args:
        config: An ``ActorCriticEncoderConfig`` over a ``RecurrentEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        build = config.base_encoder_config.build
        if config.shared:
            self.encoder: TorchModel = build(framework="torch")
        else:
            self.actor_encoder: TorchModel = build(framework="torch")
            self.critic_encoder: TorchModel = build(framework="torch")

    def get_initial_state(self) -> State:
        if self.config.shared:
            state: State = self.encoder.get_initial_state()
            return state
        return {
            ACTOR: self.actor_encoder.get_initial_state(),
            CRITIC: self.critic_encoder.get_initial_state(),
        }

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if self.config.shared:
            outs = self.encoder(inputs, **kwargs)
            both = {ACTOR: outs[ENCODER_OUT], CRITIC: outs[ENCODER_OUT]}
            return {ENCODER_OUT: both, Columns.STATE_OUT: outs[Columns.STATE_OUT]}
        state = inputs[Columns.STATE_IN]
        actor = self.actor_encoder({**inputs, Columns.STATE_IN: state[ACTOR]}, **kwargs)
        critic = self.critic_encoder({**inputs, Columns.STATE_IN: state[CRITIC]}, **kwargs)
        return {
            ENCODER_OUT: {ACTOR: actor[ENCODER_OUT], CRITIC: critic[ENCODER_OUT]},
            Columns.STATE_OUT: {ACTOR: actor[Columns.STATE_OUT], CRITIC: critic[Columns.STATE_OUT]},
        }


class TorchMultiStreamEncoder(TorchModel, Encoder):
    """One encoder per input, joined by dense layers that see all embeddings again at every depth.

    Args:
        config: A ``MultiStreamEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._streams = sorted(config.base_encoder_configs)
        parts = {name: config.base_encoder_configs[name] for name in self._streams}
        self.base_encoders = nn.ModuleDict(
            {name: part.build(framework="torch") for name, part in parts.items()}
        )
        embedded = sum(int(part.output_dims[0]) for part in parts.values())
        self.hidden_activation = (get_activation_fn(config.hidden_layer_activation) or nn.Identity)()
        layers = []
        width = embedded
        for size in config.hidden_layer_dims or ():
            layer = nn.Linear(width, size, bias=config.hidden_layer_use_bias)
            fill(
                layer.weight,
                config.hidden_layer_weights_initializer,
                config.hidden_layer_weights_initializer_config,
            )
            if config.hidden_layer_use_bias:
                fill(
                    layer.bias,
                    config.hidden_layer_bias_initializer,
                    config.hidden_layer_bias_initializer_config,
                )
            layers.append(layer)
            width = size + embedded
        self.fusion_layers = nn.ModuleList(layers)
        self.output_layer: nn.Linear | None = None
        if config.output_layer_dim is not None:
            self.output_activation = (get_activation_fn(config.output_layer_activation) or nn.Identity)()
            self.output_layer = nn.Linear(width, config.output_layer_dim, bias=config.output_layer_use_bias)
            weights = self.output_layer.weight
            fill(
                weights,
                config.output_layer_weights_initializer,
                config.output_layer_weights_initializer_config,
            )
            if config.output_layer_use_bias:
                bias = self.output_layer.bias
                fill(bias, config.output_layer_bias_initializer, config.output_layer_bias_initializer_config)

    def _forward(self, inputs: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        outs = [self.base_encoders[name]({Columns.OBS: inputs[name]})[ENCODER_OUT] for name in self._streams]
        embedded = torch.cat(outs, dim=-1)
        joined = embedded
        for index, layer in enumerate(self.fusion_layers):
            joined = joined if index == 0 else torch.cat([joined, embedded], dim=-1)
            joined = self.hidden_activation(layer(joined))
        if self.output_layer is not None:
            joined = torch.cat([joined, embedded], dim=-1) if len(self.fusion_layers) else joined
            joined = self.output_activation(self.output_layer(joined))
        return {ENCODER_OUT: joined}
