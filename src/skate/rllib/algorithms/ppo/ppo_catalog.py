"""PPOCatalog: the default networks of PPO."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from skate.rllib.core.distribution.torch.torch_distribution import TorchDiagGaussian
from skate.rllib.core.models.catalog import Catalog
from skate.rllib.core.models.configs import ActorCriticEncoderConfig, FreeLogStdMLPHeadConfig, MLPHeadConfig


def _check_if_diag_gaussian(action_distribution_cls: type, framework: str, no_error: bool = False) -> bool:
    """Return True if actions are drawn from a Gaussian; catalogs of programs call this under Ray's name.

    Args:
        action_distribution_cls: The class of the actions' distribution.
        framework: ``"torch"``.
        no_error: True to return False for another distribution, which is an error otherwise.

    Raises:
        ValueError: the distribution is another one, or the framework is.
    """
    if framework != "torch":
        raise ValueError(f"networks are those of torch; framework={framework!r} is not available")
    gaussian = issubclass(action_distribution_cls, TorchDiagGaussian)
    if not gaussian and not no_error:
        raise ValueError(
            f"free_log_std=True needs a Box action space of floats, whose actions are drawn from a Gaussian, and not from "
            f"{action_distribution_cls.__name__}"
        )
    return gaussian


class PPOCatalog(Catalog):
    """Chooses an encoder for policy and value function, and a head for each.

    Args:
        observation_space: Space of what the module sees, after connectors.
        action_space: Space of the actions.
        model_config_dict: A ``DefaultModelConfig`` or a dict with some of its fields.
    """

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], model_config_dict: Any
    ) -> None:
        super().__init__(observation_space, action_space, model_config_dict)
        self.actor_critic_encoder_config = ActorCriticEncoderConfig(
            base_encoder_config=self._encoder_config, shared=self._model_config_dict["vf_share_layers"]
        )
        self.pi_and_vf_head_hiddens = self._model_config_dict["head_fcnet_hiddens"]
        self.pi_and_vf_head_activation = self._model_config_dict["head_fcnet_activation"]
        self.pi_head_config: MLPHeadConfig | FreeLogStdMLPHeadConfig | None = None
        self.vf_head_config = MLPHeadConfig(output_layer_dim=1, **self._head_arguments())

    def _head_arguments(self) -> dict[str, Any]:
        model = self._model_config_dict
        arguments: dict[str, Any] = {
            "input_dims": self.latent_dims,
            "hidden_layer_dims": self.pi_and_vf_head_hiddens,
            "hidden_layer_activation": self.pi_and_vf_head_activation,
            "hidden_layer_use_layernorm": model["head_fcnet_use_layernorm"],
            "output_layer_activation": "linear",
        }
        for place in ("hidden_layer", "output_layer"):
            arguments |= {
                f"{place}_weights_initializer": model["head_fcnet_kernel_initializer"],
                f"{place}_weights_initializer_config": model["head_fcnet_kernel_initializer_kwargs"],
                f"{place}_bias_initializer": model["head_fcnet_bias_initializer"],
                f"{place}_bias_initializer_config": model["head_fcnet_bias_initializer_kwargs"],
            }
        return arguments

    def build_actor_critic_encoder(self, framework: str) -> Any:
        """Build the encoder."""
        return self.actor_critic_encoder_config.build(framework=framework)

    def build_encoder(self, framework: str) -> Any:
        raise NotImplementedError("PPO has one encoder for two heads; use build_actor_critic_encoder()")

    def build_pi_head(self, framework: str) -> Any:
        """Build the head of the policy."""
        distribution = self.get_action_dist_cls(framework=framework)
        free = self._model_config_dict["free_log_std"]
        gaussian = _check_if_diag_gaussian(distribution, framework, no_error=not free)
        kind = FreeLogStdMLPHeadConfig if free else MLPHeadConfig
        self.pi_head_config = kind(
            output_layer_dim=distribution.required_input_dim(self.action_space),
            clip_log_std=gaussian,
            log_std_clip_param=self._model_config_dict["log_std_clip_param"],
            **self._head_arguments(),
        )
        return self.pi_head_config.build(framework=framework)

    def build_vf_head(self, framework: str) -> Any:
        """Build the head of the value function."""
        return self.vf_head_config.build(framework=framework)
