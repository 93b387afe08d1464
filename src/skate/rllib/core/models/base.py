"""Names of the parts of an encoder's output, and the base of model configs."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ENCODER_OUT = "encoder_out"
ACTOR = "actor"
CRITIC = "critic"


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
