"""Network setup for LightGBM workers: a port in each, known to all."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from skate.train.backend import Backend, BackendConfig
from skate.train.worker.session import current


@dataclass
class LightGBMConfig(BackendConfig):
    """The network configuration of the workers; it has no options."""

    @property
    def backend_cls(self) -> type[Backend]:
        return LightGBMBackend

    @property
    def preload(self) -> tuple[str, ...]:
        return ("lightgbm",)


class LightGBMBackend(Backend):
    """Finds a port in every worker, and distributes the list."""

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        ports = worker_group.execute(_free_port)
        machines = ",".join(
            f"{each['ip']}:{port}" for each, port in zip(worker_group.where, ports, strict=True)
        )
        worker_group.execute(_remember, ports, machines)


#: The network parameters, in a worker.
_parameters: dict[str, Any] = {}


def get_network_params() -> dict[str, Any]:
    """Return network parameters for `lightgbm.train`, so that the workers build one model together.

    With one worker there is no network, and the dict is empty.

    Raises:
        RuntimeError: called outside of the training function.
    """
    current("lightgbm.get_network_params()")
    return dict(_parameters)


def _free_port() -> int:
    with socket.socket(socket.AF_INET) as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
        return port


def _remember(ports: list[int], machines: str) -> None:
    place = current("lightgbm").place
    _parameters.clear()
    if place.world_size > 1:
        _parameters.update(
            num_machines=place.world_size,
            local_listen_port=ports[place.world_rank],
            machines=machines,
        )
