"""Catalog: chooses default networks and action distributions by the spaces of an environment."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from skate.rllib.core.distribution.torch.torch_distribution import (
    TorchCategorical,
    TorchDiagGaussian,
    TorchDistribution,
    TorchMultiCategorical,
    TorchMultiDistribution,
)
from skate.rllib.core.models.base import ModelConfig, check_framework
from skate.rllib.core.models.configs import CNNEncoderConfig, MLPEncoderConfig, RecurrentEncoderConfig
from skate.rllib.core.rl_module.default_model_config import DefaultModelConfig
from skate.rllib.utils.error import UnsupportedSpaceException
from skate.rllib.utils.numpy import leaves_of

_FILTERS: dict[int, list[list[Any]]] = {
    96: [[16, [8, 8], 4], [32, [4, 4], 2], [256, [11, 11], 2]],
    84: [[16, [8, 8], 4], [32, [4, 4], 2], [256, [11, 11], 1]],
    64: [[16, [4, 4], 2], [32, [4, 4], 2], [64, [4, 4], 2], [128, [4, 4], 2]],
    42: [[16, [4, 4], 2], [32, [4, 4], 2], [256, [11, 11], 1]],
    10: [[16, [5, 5], 2], [32, [5, 5], 2]],
}
_SMALLEST_IMAGE = 4


class Catalog:
    """Chooses an encoder and an action distribution; algorithms add their heads.

    Args:
        observation_space: Space of what the module sees, after connectors.
        action_space: Space of the actions.
        model_config_dict: A ``DefaultModelConfig`` or a dict with some of its fields.

    Raises:
        ValueError: no default network exists for the observation space.
    """

    #: Returns the class of action distributions for a framework.
    _action_dist_class_fn: Callable[..., Any]

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], model_config_dict: Any
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._model_config_dict = completed_model_config(model_config_dict)
        self.latent_dims: Sequence[int] | None = None
        self._determine_components_hook()

    def _determine_components_hook(self) -> None:
        """Choose the components; an override calls this first, then sets its own."""
        self._encoder_config: ModelConfig = self._get_encoder_config(
            observation_space=self.observation_space,
            action_space=self.action_space,
            model_config_dict=self._model_config_dict,
        )
        self._action_dist_class_fn = functools.partial(
            self._get_dist_cls_from_action_space, action_space=self.action_space
        )
        self.latent_dims = self._encoder_config.output_dims

    def build_encoder(self, framework: str) -> Any:
        """Build the encoder."""
        return self._encoder_config.build(framework=framework)

    def get_action_dist_cls(self, framework: str) -> type[TorchDistribution]:
        """Return the class of action distributions."""
        chosen: type[TorchDistribution] = self._action_dist_class_fn(framework=framework)
        return chosen

    @classmethod
    def get_tokenizer_config(
        cls, observation_space: gym.Space[Any], model_config_dict: dict[str, Any]
    ) -> ModelConfig:
        """Return the config of the encoder in front of a recurrent layer."""
        return cls._get_encoder_config(observation_space, {**model_config_dict, "use_lstm": False})

    @classmethod
    def _get_encoder_config(
        cls,
        observation_space: gym.Space[Any],
        model_config_dict: dict[str, Any],
        action_space: gym.Space[Any] | None = None,
    ) -> ModelConfig:
        model = model_config_dict
        shape = observation_space.shape if isinstance(observation_space, spaces.Box) else None
        if shape is None or len(shape) not in (1, 3):
            raise ValueError(
                f"no default network for observations of {observation_space}; flatten them with the "
                "FlattenObservations connector, or give your own module with config.rl_module(rl_module_spec=...)"
            )
        if model["use_lstm"]:
            return RecurrentEncoderConfig(
                input_dims=shape,
                recurrent_layer_type="lstm",
                hidden_dim=model["lstm_cell_size"],
                hidden_weights_initializer=model["lstm_kernel_initializer"],
                hidden_weights_initializer_config=model["lstm_kernel_initializer_kwargs"],
                hidden_bias_initializer=model["lstm_bias_initializer"],
                hidden_bias_initializer_config=model["lstm_bias_initializer_kwargs"],
                tokenizer_config=cls.get_tokenizer_config(observation_space, model),
            )
        return mlp_encoder_config(shape, model) if len(shape) == 1 else cnn_encoder_config(shape, model)

    @classmethod
    def _get_dist_cls_from_action_space(
        cls, action_space: gym.Space[Any], *, framework: str | None = "torch"
    ) -> type[TorchDistribution]:
        check_framework(framework or "torch")
        if isinstance(action_space, spaces.Discrete):
            return TorchCategorical
        if isinstance(action_space, spaces.MultiDiscrete):
            return _multi_categorical_dist_partial_helper(action_space, framework)
        if isinstance(action_space, spaces.Box):
            if np.issubdtype(action_space.dtype, np.integer):
                raise ValueError(
                    f"no action distribution for {action_space}; use MultiDiscrete, or a Box of floats"
                )
            if len(action_space.shape) > 1:
                raise UnsupportedSpaceException(
                    f"no action distribution for {action_space} of {len(action_space.shape)} dimensions; "
                    "reshape it to one dimension, or use a Tuple space"
                )
            return TorchDiagGaussian
        if isinstance(action_space, spaces.Dict | spaces.Tuple):
            return _multi_action_dist_partial_helper(cls, action_space, framework)
        raise NotImplementedError(
            f"no action distribution for {action_space}; set self.action_dist_cls in your module's setup()"
        )


def _multi_categorical_dist_partial_helper(
    action_space: Any, framework: str | None = "torch"
) -> type[TorchDistribution]:
    """Return the class of distributions of a MultiDiscrete space."""
    check_framework(framework or "torch")
    lengths = [int(n) for n in action_space.nvec.reshape(-1)]
    return TorchMultiCategorical.get_partial_dist_cls(space=action_space, input_lens=lengths)


def _multi_action_dist_partial_helper(
    catalog_cls: Any, action_space: Any, framework: str | None = "torch"
) -> type[TorchDistribution]:
    """Return the class of distributions of a Dict or Tuple space, whose parts have those that a catalog chooses."""
    parts = structure_of(action_space)
    kinds = _map(lambda part: catalog_cls._get_dist_cls_from_action_space(part, framework=framework), parts)
    flat = zip(leaves_of(kinds), leaves_of(parts), strict=True)
    return TorchMultiDistribution.get_partial_dist_cls(
        space=action_space,
        child_distribution_cls_struct=kinds,
        input_lens=[kind.required_input_dim(part) for kind, part in flat],
    )


def completed_model_config(model_config: Any) -> dict[str, Any]:
    """Return a model config as a dict with every default filled in.

    Args:
        model_config: A ``DefaultModelConfig``, a dict with some of its fields, or None.

    Raises:
        ValueError: a field looks like a misspelled one.
    """
    if dataclasses.is_dataclass(model_config) and not isinstance(model_config, type):
        given = dataclasses.asdict(model_config)
    else:
        given = dict(model_config or {})
    defaults = dataclasses.asdict(DefaultModelConfig())
    for name in given:
        near = difflib.get_close_matches(name, defaults, n=1, cutoff=0.9)
        if name not in defaults and near:
            raise ValueError(f"model_config has no field {name!r}; did you mean {near[0]!r}?")
    return {**defaults, **given}


def mlp_encoder_config(shape: Sequence[int], model: dict[str, Any]) -> MLPEncoderConfig:
    """Return the config of dense layers over flat observations."""
    return MLPEncoderConfig(
        input_dims=shape,
        hidden_layer_dims=list(model["fcnet_hiddens"])[:-1],
        hidden_layer_activation=model["fcnet_activation"],
        hidden_layer_use_layernorm=model["fcnet_use_layernorm"],
        hidden_layer_weights_initializer=model["fcnet_kernel_initializer"],
        hidden_layer_weights_initializer_config=model["fcnet_kernel_initializer_kwargs"],
        hidden_layer_bias_initializer=model["fcnet_bias_initializer"],
        hidden_layer_bias_initializer_config=model["fcnet_bias_initializer_kwargs"],
        output_layer_dim=model["fcnet_hiddens"][-1],
        output_layer_activation=model["fcnet_activation"],
        output_layer_use_layernorm=model["fcnet_use_layernorm"],
        output_layer_weights_initializer=model["fcnet_kernel_initializer"],
        output_layer_weights_initializer_config=model["fcnet_kernel_initializer_kwargs"],
        output_layer_bias_initializer=model["fcnet_bias_initializer"],
        output_layer_bias_initializer_config=model["fcnet_bias_initializer_kwargs"],
    )


def cnn_encoder_config(shape: Sequence[int], model: dict[str, Any]) -> CNNEncoderConfig:
    """Return the config of convolutions over images."""
    return CNNEncoderConfig(
        input_dims=shape,
        cnn_filter_specifiers=model["conv_filters"] or get_filter_config(shape),
        cnn_activation=model["conv_activation"],
        cnn_kernel_initializer=model["conv_kernel_initializer"],
        cnn_kernel_initializer_config=model["conv_kernel_initializer_kwargs"],
        cnn_bias_initializer=model["conv_bias_initializer"],
        cnn_bias_initializer_config=model["conv_bias_initializer_kwargs"],
    )


def get_filter_config(shape: Sequence[int]) -> list[list[Any]]:
    """Return convolutions for images of the given height, width and channels.

    Squares of 10, 42, 64, 84 and 96 pixels have fixed stacks. Any other image is halved until its longer side has
    at most four pixels.
    """
    height, width = int(shape[0]), int(shape[1])
    if height == width and height in _FILTERS:
        return _FILTERS[height]
    filters: list[list[Any]] = []
    longer, channels = max(height, width), 16
    while longer > _SMALLEST_IMAGE:
        filters.append([channels, [4, 4], 2])
        longer, channels = (longer + 1) // 2, min(channels * 2, 128)
    return filters or [[16, [3, 3], 1]]


def structure_of(space: gym.Space[Any]) -> Any:
    """Return nested Dict and Tuple spaces as nested dicts and tuples of simple spaces."""
    if isinstance(space, spaces.Dict):
        return {key: structure_of(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(structure_of(part) for part in space.spaces)
    return space


def _map(call: Any, struct: Any) -> Any:
    if isinstance(struct, dict):
        return {key: _map(call, part) for key, part in struct.items()}
    return tuple(_map(call, part) for part in struct) if isinstance(struct, tuple) else call(struct)
