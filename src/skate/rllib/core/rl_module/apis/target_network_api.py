"""TargetNetworkAPI: modules with slow copies of their networks."""

from __future__ import annotations

import abc
from typing import Any

TARGET_NETWORK_ACTION_DIST_INPUTS = "target_network_action_dist_inputs"


class TargetNetworkAPI(abc.ABC):
    """A module with target networks, which its learner keeps near the main ones."""

    @abc.abstractmethod
    def make_target_networks(self) -> None:
        """Make the target networks, equal to the main ones."""

    @abc.abstractmethod
    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """Return pairs of a main network and its target network."""

    @abc.abstractmethod
    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs of the target networks."""
