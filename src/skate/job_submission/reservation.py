"""The resources that a job holds for its command: an actor on the job's node that holds them and does nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import skate
from skate.client.session import node_access
from skate.exceptions import ActorUnschedulableError, RayError

_FIRST_NAMES = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


class JobCommand:
    """Holds resources for the command of a job."""

    def devices(self) -> str | None:
        """Return the GPUs that belong to the resources."""
        return os.environ.get("CUDA_VISIBLE_DEVICES")


class Reservation:
    """Resources of a node, requested when this object is made, and held until `release`.

    Args:
        path: the node's socket.
        job: the id of the job.
        amounts: by the name of the resource.
        labels: conditions for the labels of the node.
        changed: called in another thread once the request is met or refused.
    """

    def __init__(
        self,
        path: str,
        job: str,
        amounts: dict[str, float],
        labels: dict[str, str],
        changed: Callable[[], None],
    ) -> None:
        skate.init(path, log_to_driver=False, configure_logging=False)
        self._path = path
        self._name = f"job {job}"
        self._changed = changed
        self.is_held = False
        #: Why the request can never be met.
        self.refusal = ""
        #: The reserved GPUs, or None if none are.
        self.devices: str | None = None
        self._has_gpus = bool(amounts.get("GPU"))
        options: dict[str, Any] = {_FIRST_NAMES.get(name, name): amount for name, amount in amounts.items()}
        custom = {name: options.pop(name) for name in amounts if name not in _FIRST_NAMES}
        here = skate.get_runtime_context().get_node_id()
        self._actor = (
            skate.remote(JobCommand)
            .options(
                **{"num_cpus": 0, **options},
                resources=custom or None,
                name=self._name,
                label_selector={"ray.io/node-id": here, **labels},
            )
            .remote()
        )
        threading.Thread(target=self._wait, daemon=True).start()

    def reason(self) -> str:
        """Return why the resources are not held yet; empty if that is unknown."""
        try:
            waiting = node_access.ask(self._path, "status")["pending"]
        except ConnectionError:
            return ""
        for _, _, why in waiting:
            _, met, rest = why.partition(f"(name={self._name!r}) has not started yet: ")
            if met:
                return str(rest)
        return ""

    def release(self) -> None:
        """Give the resources back."""
        skate.shutdown()

    def _wait(self) -> None:
        try:
            devices = skate.get(self._actor.devices.remote())
            if self._has_gpus:
                self.devices = devices
            self.is_held = True
        except ActorUnschedulableError as error:
            self.refusal = f"The command of the job can never start, because the node lacks what it needs: {_first_line(error)}"
        except (RayError, ConnectionError) as error:
            self.refusal = f"The resources of the job are lost: {error}"
        self._changed()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
