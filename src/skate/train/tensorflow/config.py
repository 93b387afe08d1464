"""Rendezvous of TensorFlow workers: TF_CONFIG, with an address of each."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skate.train.backend import Backend, BackendConfig


@dataclass
class TensorflowConfig(BackendConfig):
    """The cluster configuration of the workers; it has no options."""

    @property
    def backend_cls(self) -> type[Backend]:
        return TensorflowBackend


class TensorflowBackend(Backend):
    """Finds a port in every worker, and distributes the addresses before TensorFlow is loaded."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        ports = worker_group.execute(_free_port)
        addresses = [f"{each['ip']}:{port}" for each, port in zip(worker_group.where, ports, strict=True)]
        worker_group.execute(_join, addresses)


def cluster(addresses: Sequence[str], rank: int) -> str:
    """Return the value of TF_CONFIG for `MultiWorkerMirroredStrategy`."""
    return json.dumps({"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": rank}})


def _join(addresses: list[str]) -> None:
    os.environ["TF_CONFIG"] = cluster(addresses, int(os.environ["RANK"]))


def _free_port() -> int:
    with socket.socket(socket.AF_INET) as found:
        found.bind(("", 0))
        port: int = found.getsockname()[1]
        return port
