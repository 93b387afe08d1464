"""ModelChecker: builds a network from its config, and compares networks of one config."""

from __future__ import annotations

from typing import Any

import numpy as np

from skate.rllib.core.columns import Columns
from skate.rllib.core.models.torch.tensor_functions import convert_to_torch_tensor
from skate.rllib.scripts.checks import check
from skate.rllib.utils.numpy import convert_to_numpy


class ModelChecker:
    """Builds networks from one config, and checks that they have as many parameters and equal outputs.

    Args:
        config: The config of the network, such as an ``MLPEncoderConfig``.
    """

    def __init__(self, config: Any) -> None:
        self.config = config
        self.models: dict[str, Any] = {}
        self.param_counts: dict[str, Any] = {}
        self.output_values: dict[str, Any] = {}
        #: All inputs and weights are this small number.
        self.random_fill_input_value = float(np.random.default_rng().uniform(-0.01, 0.01))

    def add(self, framework: str = "torch", obs: bool = True, state: Any = False) -> Any:
        """Build a network, and return what it gives for one row with its first weights.

        Args:
            framework: Only ``"torch"``.
            obs: True if it takes a dict with observations, False for embeddings alone.
            state: The shapes of its state, nested as the state is, for one that has a memory.
        """
        model = self.models[framework] = self.config.build(framework=framework)
        time = [1] if state else []
        inputs: Any = np.full([1, *time, *self.config.input_dims], self.random_fill_input_value)
        if obs:
            inputs = {Columns.OBS: inputs}
        if state:
            inputs[Columns.STATE_IN] = _zeros(state)
        inputs = convert_to_torch_tensor(inputs)
        outputs = model(inputs)
        model._set_to_dummy_weights(value_sequence=(self.random_fill_input_value,))
        self.output_values[framework] = convert_to_numpy(model(inputs))
        self.param_counts[framework] = model.get_num_parameters()
        return outputs

    def check(self) -> None:
        """Compare the networks.

        Raises:
            AssertionError: they differ.
        """
        first = next(iter(self.models))
        for framework in self.models:
            check(self.param_counts[framework], self.param_counts[first])
            check(self.output_values[framework], self.output_values[first], atol=0.0005)


def _zeros(shapes: Any) -> Any:
    if isinstance(shapes, dict):
        return {name: _zeros(each) for name, each in shapes.items()}
    return np.zeros([1, *shapes])
