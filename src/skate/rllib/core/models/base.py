"""Names of the parts of an encoder's output, and the bases of networks and their configs."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ENCODER_OUT = "encoder_out"
ACTOR = "actor"
CRITIC = "critic"


class Model(abc.ABC):
    """A network that is built from a config; with torch, `TorchModel` comes first among the bases.

    Args:
        config: The config that the network was built from, kept as ``self.config``.
    """

    def __init__(self, config: Any) -> None:
        self.config = config

    @property
    def input_specs(self) -> Any:
        """None: inputs are not checked against a specification."""
        return self.get_input_specs()

    @property
    def output_specs(self) -> Any:
        """None: outputs are not checked against a specification."""
        return self.get_output_specs()

    def get_input_specs(self) -> Any:
        """Return the specification of the inputs, which is for readers alone."""
        return None

    def get_output_specs(self) -> Any:
        """Return the specification of the outputs, which is for readers alone."""
        return None

    def get_initial_state(self) -> Any:
        """Return the state at the start of an episode; empty for networks without memory."""
        return {}

    @abc.abstractmethod
    def _forward(self, inputs: Any, **kwargs: Any) -> Any:
        """Return the output for a batch."""

    @abc.abstractmethod
    def get_num_parameters(self) -> tuple[int, int]:
        """Return the numbers of trainable and of frozen parameters."""


class Encoder(Model):
    """A network from observations to embeddings: from ``{"obs": ..., "state_in": ...}`` to ``{"encoder_out": ...}``."""


class ActorCriticEncoder(Encoder):
    """An encoder that has the embeddings of policy and value function under ``"actor"`` and ``"critic"``."""


class StatefulActorCriticEncoder(Encoder):
    """An encoder with memory for policy and value function."""


@dataclass
class ModelConfig(abc.ABC):
    """Everything that is needed to build one network.

    Args:
        input_dims: Shape of one input row, without the batch dimension.
        always_check_shapes: Taken for compatibility.
    """

    input_dims: Sequence[int] | None = None
    always_check_shapes: bool = False

    @abc.abstractmethod
    def build(self, framework: str = "torch") -> Any:
        """Build the network.

        Args:
            framework: Only ``"torch"``.
        """

    @property
    def output_dims(self) -> tuple[int, ...]:
        """Shape of one output row, without the batch dimension."""
        raise NotImplementedError(f"{type(self).__name__} does not know its output_dims")

    def first_input_dim(self) -> int:
        """Return the length of one input row.

        Raises:
            ValueError: the inputs are not one-dimensional.
        """
        if self.input_dims is None or len(self.input_dims) != 1:
            raise ValueError(
                f"{type(self).__name__} needs input_dims of one dimension, got {self.input_dims}"
            )
        return int(self.input_dims[0])


def check_framework(framework: str) -> None:
    """Raise ValueError unless the framework is torch."""
    if framework != "torch":
        raise ValueError(f'framework="{framework}" was asked for; only "torch" is available')
