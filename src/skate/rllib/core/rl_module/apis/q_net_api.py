"""QNetAPI: modules with a Q-network."""

from __future__ import annotations

import abc
from typing import Any


class QNetAPI(abc.ABC):
    """A module that estimates the values of actions."""

    @abc.abstractmethod
    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the values of all actions in the batch's observations, under ``"qf_preds"``."""

    def compute_advantage_distribution(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return distributions over advantages, for distributional Q-learning."""
        return self.compute_q_values(batch)
