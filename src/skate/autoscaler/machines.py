"""Machines that an autoscaler starts and stops: those of a cluster file, or several nodes of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from skate.launcher import launch
from skate.launcher.cluster_config import ClusterConfig
from skate.launcher.ssh import MachineError

#: The label that names the machine of a local node.
NAME_LABEL = "skate.io/machine"

NodeRow = Mapping[str, Any]


class Machines(Protocol):
    """Places for workers, by name. A node ends by itself when it has been drained."""

    names: Sequence[str]

    def start(self, name: str) -> None:
        """Start a node, and return when it has joined. Raises MachineError."""

    def name_of(self, node: NodeRow) -> str | None:
        """Return the machine of a row of `nodes()`; None for the node of another place, such as the head."""


class SshMachines:
    """The workers of a cluster file."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self.names: Sequence[str] = config.workers[: config.max_workers]
        self._by_address = {_address_of(name): name for name in self.names}

    def start(self, name: str) -> None:
        """Prepare the machine and start its node, as `skate up` does. Raises MachineError."""
        launch.start_worker(self._config, name, launch.print_line)

    def name_of(self, node: NodeRow) -> str | None:
        """Return the machine with the node's address."""
        return self._by_address.get(node["NodeManagerAddress"])


class LocalMachines:
    """Several nodes of this machine, each with a folder of its own: for tests, and to try an autoscaler out."""

    def __init__(self, head: str, count: int, folder: Path, flags: Sequence[str] = ()) -> None:
        """Use `count` nodes that join the head at an address; `flags` are options of `skate start`."""
        self.names: Sequence[str] = [f"local{number}" for number in range(1, count + 1)]
        self._head = head
        self._folder = folder
        self._flags = flags

    def start(self, name: str) -> None:
        """Start a node. Raises MachineError."""
        words = [
            "start",
            f"--address={self._head}",
            f"--temp-dir={self._folder / name}",
            f"--labels={NAME_LABEL}={name}",
        ]
        done = _skate([*words, *self._flags])
        if done.returncode:
            raise MachineError(f"{name}: {done.stderr.strip() or done.stdout.strip()}")

    def stop(self, name: str) -> None:
        """Stop a node if it runs."""
        _skate(["stop", f"--temp-dir={self._folder / name}"])

    def name_of(self, node: NodeRow) -> str | None:
        """Return the name in the node's label."""
        name = node["Labels"].get(NAME_LABEL)
        return name if name in self.names else None


def _skate(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("SKATE_ADDRESS", "RAY_ADDRESS")
    }
    return subprocess.run(
        [sys.executable, "-m", "skate", *words], env=environment, capture_output=True, text=True, check=False
    )


def _address_of(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError:  # the error of `ssh` will name it
        return name
