"""DQNCatalog: the default networks of DQN."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from skate.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDistribution
from skate.rllib.core.models.base import check_framework
from skate.rllib.core.models.catalog import Catalog
from skate.rllib.core.models.configs import MLPHeadConfig
from skate.rllib.core.models.torch.noisy import make_noisy


class DQNCatalog(Catalog):
    """Chooses an encoder, a head for the advantages of actions and one for the value of states.

    Args:
        observation_space: Space of what the module sees, after connectors.
        action_space: A Discrete space.
        model_config_dict: A ``DefaultModelConfig`` or a dict with some of its fields, and with ``"num_atoms"``,
            ``"noisy"`` and ``"std_init"``.

    Raises:
        ValueError: the action space is not Discrete.
    """

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], model_config_dict: Any
    ) -> None:
        if not isinstance(action_space, gym.spaces.Discrete):
            raise ValueError(f"DQN needs a Discrete action space, not {action_space}; use PPO or SAC")
        super().__init__(observation_space, action_space, model_config_dict)
        self.num_atoms = int(self._model_config_dict.get("num_atoms", 1))
        self.af_head_config = self._get_head_config(int(action_space.n) * self.num_atoms)
        self.vf_head_config = self._get_head_config(1)

    def build_af_head(self, framework: str) -> Any:
        """Build the head for the advantages, or values, of actions."""
        return self._noisy_or_not(self.af_head_config.build(framework=framework))

    def build_vf_head(self, framework: str) -> Any:
        """Build the head for the value of states."""
        return self._noisy_or_not(self.vf_head_config.build(framework=framework))

    def _noisy_or_not(self, head: Any) -> Any:
        model = self._model_config_dict
        if model.get("noisy"):
            make_noisy(head, float(model.get("std_init", 0.5)))
        return head

    def get_action_dist_cls(self, framework: str) -> type[TorchDistribution]:
        check_framework(framework)
        return TorchCategorical

    def _get_head_config(self, output_layer_dim: int) -> MLPHeadConfig:
        model = self._model_config_dict
        return MLPHeadConfig(
            input_dims=self.latent_dims,
            hidden_layer_dims=model["head_fcnet_hiddens"],
            hidden_layer_activation=model["head_fcnet_activation"],
            hidden_layer_use_layernorm=model["head_fcnet_use_layernorm"],
            hidden_layer_weights_initializer=model["head_fcnet_kernel_initializer"],
            hidden_layer_weights_initializer_config=model["head_fcnet_kernel_initializer_kwargs"],
            hidden_layer_bias_initializer=model["head_fcnet_bias_initializer"],
            hidden_layer_bias_initializer_config=model["head_fcnet_bias_initializer_kwargs"],
            output_layer_activation="linear",
            output_layer_dim=output_layer_dim,
        )
