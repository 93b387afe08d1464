"""Modules that learn to choose the actions of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from skate.rllib.core.columns import Columns
from skate.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from skate.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule


class DiscreteBCTorchModule(TorchRLModule):
    """One hidden layer from flat observations to the logits of discrete actions.

    ``model_config["fcnet_hiddens"][0]`` is the size of the hidden layer.
    """

    def setup(self) -> None:
        self.input_dim = int(self.observation_space.shape[0])
        hidden = int(self.model_config["fcnet_hiddens"][0])
        self.policy = nn.Sequential(
            nn.Linear(self.input_dim, hidden), nn.ReLU(), nn.Linear(hidden, int(self.action_space.n))
        )

    def get_train_action_dist_cls(self) -> type[TorchCategorical]:
        return TorchCategorical

    def get_exploration_action_dist_cls(self) -> type[TorchCategorical]:
        return TorchCategorical

    def get_inference_action_dist_cls(self) -> type[TorchCategorical]:
        return TorchCategorical

    @torch.no_grad()
    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_train(batch)

    @torch.no_grad()
    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward_train(batch)

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        logits: Tensor = self.policy(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: logits}
