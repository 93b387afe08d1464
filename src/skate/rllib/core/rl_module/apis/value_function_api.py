"""ValueFunctionAPI: modules with a value function."""

from __future__ import annotations

import abc
from typing import Any


class ValueFunctionAPI(abc.ABC):
    """A module that estimates the value of observations."""

    @abc.abstractmethod
    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """Return one value per row.

        Args:
            batch: Columns with at least the observations.
            embeddings: Output of the encoder for the batch, if it is known already.
        """
