"""SACCatalog: the default networks of SAC."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from skate.rllib.core.columns import Columns
from skate.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDistribution,
    TorchSquashedGaussian,
)
from skate.rllib.core.models.base import check_framework
from skate.rllib.core.models.catalog import Catalog
from skate.rllib.core.models.configs import (
    FreeLogStdMLPHeadConfig,
    MLPEncoderConfig,
    MLPHeadConfig,
    MultiStreamEncoderConfig,
)


class SACCatalog(Catalog):
    """Chooses an encoder and a head for the policy, and others for the critics.

    A critic of continuous actions encodes observations and actions apart, then joins them.

    Args:
        observation_space: Space of what the module sees, after connectors.
        action_space: A Box or Discrete space.
        model_config_dict: A ``DefaultModelConfig`` or a dict with some of its fields.

    Raises:
        ValueError: the action space is neither Box nor Discrete.
    """

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], model_config_dict: Any
    ) -> None:
        if not isinstance(action_space, gym.spaces.Box | gym.spaces.Discrete):
            raise ValueError(f"SAC needs a Box or Discrete action space, not {action_space}; use PPO")
        super().__init__(observation_space, action_space, model_config_dict)
        self.pi_head_config: MLPHeadConfig | FreeLogStdMLPHeadConfig | None = None
        outputs = int(action_space.n) if isinstance(action_space, gym.spaces.Discrete) else 1
        self.qf_head_config = MLPHeadConfig(output_layer_dim=outputs, **self._head_arguments())

    def _head_arguments(self) -> dict[str, Any]:
        model = self._model_config_dict
        return {
            "input_dims": self.latent_dims,
            "hidden_layer_dims": model["head_fcnet_hiddens"],
            "hidden_layer_activation": model["head_fcnet_activation"],
            "output_layer_activation": "linear",
        }

    def build_qf_encoder(self, framework: str) -> Any:
        """Build the encoder of a critic."""
        if isinstance(self.action_space, gym.spaces.Discrete):
            return self.build_encoder(framework=framework)
        model = self._model_config_dict
        assert self.latent_dims is not None
        actions = MLPEncoderConfig(
            input_dims=self.action_space.shape,
            hidden_layer_dims=list(model["fcnet_hiddens"])[:-1],
            hidden_layer_activation=model["fcnet_activation"],
            output_layer_dim=self.latent_dims[0],
            output_layer_activation=model["fcnet_activation"],
        )
        self.qf_encoder_config = MultiStreamEncoderConfig(
            base_encoder_configs={Columns.OBS: self._encoder_config, Columns.ACTIONS: actions},
            hidden_layer_dims=model["fusionnet_hiddens"],
            hidden_layer_activation=model["fusionnet_activation"],
            hidden_layer_weights_initializer=model["fusionnet_kernel_initializer"],
            hidden_layer_weights_initializer_config=model["fusionnet_kernel_initializer_kwargs"],
            hidden_layer_bias_initializer=model["fusionnet_bias_initializer"],
            hidden_layer_bias_initializer_config=model["fusionnet_bias_initializer_kwargs"],
            output_layer_dim=self.latent_dims[0],
            output_layer_activation=model["fusionnet_activation"],
        )
        return self.qf_encoder_config.build(framework=framework)

    def build_pi_head(self, framework: str) -> Any:
        """Build the head of the policy."""
        distribution = self.get_action_dist_cls(framework=framework)
        free = self._model_config_dict["free_log_std"]
        if free and isinstance(self.action_space, gym.spaces.Discrete):
            raise ValueError(f"free_log_std=True needs a Box action space, not {self.action_space}")
        kind = FreeLogStdMLPHeadConfig if free else MLPHeadConfig
        self.pi_head_config = kind(
            output_layer_dim=distribution.required_input_dim(self.action_space),
            log_std_clip_param=self._model_config_dict["log_std_clip_param"],
            **self._head_arguments(),
        )
        return self.pi_head_config.build(framework=framework)

    def build_qf_head(self, framework: str) -> Any:
        """Build the head of a critic."""
        return self.qf_head_config.build(framework=framework)

    def get_action_dist_cls(self, framework: str) -> type[TorchDistribution]:
        check_framework(framework)
        return (
            TorchCategorical if isinstance(self.action_space, gym.spaces.Discrete) else TorchSquashedGaussian
        )
