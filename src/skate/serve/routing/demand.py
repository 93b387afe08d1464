"""Reports of waiting connections to the controller."""

from __future__ import annotations

from skate.serve.routing.table import Key
from skate.serve.routing.watch import Watch


class Demand:
    """Reports to the controller which deployments the connections of a process wait for."""

    def __init__(self, watching: Watch) -> None:
        self.node = watching.node
        self._watching = watching
        self._last_waiting: dict[Key, int] = {}

    def demand(self, waiting: dict[Key, int]) -> None:
        """Report the current number of waiting requests."""
        if waiting != self._last_waiting:
            self._last_waiting = waiting
            # Requesting the future sends the call immediately; no task ends here that would flush it.
            self._watching.controller.demand.remote(self._watching.name + "-http", waiting).future()
