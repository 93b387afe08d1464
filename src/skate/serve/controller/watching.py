"""The controller's own view of what it tells others: it forwards requests too."""

from __future__ import annotations

from typing import Any

import skate


class OwnWatch:
    """Has what a Watch has, without asking anybody."""

    def __init__(self, controller: Any) -> None:
        self.actor = controller
        self.node = skate.get_runtime_context().get_node_id()
        self.name = "controller"

    def demand(self, waiting: Any) -> None:
        """What waits in this process."""
        self.actor._take_demand("controller-http", waiting)


def adopt_own(controller: Any) -> OwnWatch:
    """The view of the controller that runs in this process."""
    return OwnWatch(controller)
