"""The controller's own view of its table, because it forwards requests too."""

from __future__ import annotations

import skate
from skate.serve.controller.ports import ControllerPort
from skate.serve.controller.records import Key


class LocalWatch:
    """A Watch that does not call the controller."""

    def __init__(self, controller: ControllerPort) -> None:
        self.actor = controller
        self.node = skate.get_runtime_context().get_node_id()
        self.name = "controller"

    def demand(self, waiting: dict[Key, int]) -> None:
        """Pass on the number of waiting requests in this process."""
        self.actor._take_demand("controller-http", waiting)


def adopt_own(controller: ControllerPort) -> LocalWatch:
    """Return the view of the controller that runs in this process."""
    return LocalWatch(controller)
