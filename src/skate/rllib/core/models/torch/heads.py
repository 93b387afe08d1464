"""Heads: from embeddings to logits, values and action parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from skate.rllib.core.models.torch.base import TorchModel
from skate.rllib.core.models.torch.mlp_encoder import mlp_of


class TorchMLPHead(TorchModel):
    """Dense layers over embeddings; may bound the second half of its outputs, log standard deviations.

    Args:
        config: An ``MLPHeadConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.net = mlp_of(config)
        self.clip_log_std = config.clip_log_std
        self.log_std_clip_param_const: Tensor
        self.register_buffer("log_std_clip_param_const", torch.tensor([float(config.log_std_clip_param)]))

    def _forward(self, inputs: Tensor, **kwargs: Any) -> Tensor:
        out: Tensor = self.net.mlp(inputs)
        return self.bounded(out) if self.clip_log_std else out

    def bounded(self, out: Tensor) -> Tensor:
        """Return outputs with their second half within the bounds."""
        means, log_stds = out.chunk(2, dim=-1)
        bound = self.log_std_clip_param_const
        return torch.cat((means, torch.clamp(log_stds, -bound, bound)), dim=-1)


class TorchFreeLogStdMLPHead(TorchModel):
    """Dense layers for means; the log standard deviations are parameters that do not depend on observations.

    Args:
        config: A ``FreeLogStdMLPHeadConfig``.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        half = config.output_dims[0] // 2
        if config.output_layer_dim is None:
            hidden = [*config.hidden_layer_dims[:-1], half]
            self.net = mlp_of(replace(config, hidden_layer_dims=hidden))
        else:
            self.net = mlp_of(replace(config, output_layer_dim=half))
        self.log_std = nn.Parameter(torch.zeros(half))
        self.clip_log_std = config.clip_log_std
        self.log_std_clip_param_const: Tensor
        self.register_buffer("log_std_clip_param_const", torch.tensor([float(config.log_std_clip_param)]))

    def _forward(self, inputs: Tensor, **kwargs: Any) -> Tensor:
        mean: Tensor = self.net(inputs)
        log_std: Tensor = self.log_std
        if self.clip_log_std:
            bound = self.log_std_clip_param_const
            log_std = torch.clamp(log_std, -bound, bound)
        return torch.cat((mean, log_std.expand(mean.shape)), dim=-1)
