"""The workers of torch meet at a port that no other process can take before torch listens there."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from skate.train.torch import TorchConfig, TorchTrainer
from skate.train.torch.config import TorchBackend

torch = pytest.importorskip("torch", reason="the extra skate[train] is not installed")

#: The sockets that were opened at the workers' port, in rank 0.
taken: list[socket.socket] = []


def take_port() -> None:
    """Listen at the port that was chosen, as another process might."""
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        other.bind(("", int(os.environ["MASTER_PORT"])))
        other.listen()
    except OSError:
        other.close()
    else:
        taken.append(other)


class Contested:
    """A group of workers; before each function that all of them run, another socket reaches for their port."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._group, name)

    def execute(self, function: Callable[..., Any], *args: Any) -> Any:
        self._group.execute_single(0, take_port)
        return self._group.execute(function, *args)


class ContestedBackend(TorchBackend):
    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        super().on_start(Contested(worker_group), backend_config)


@dataclass
class ContestedConfig(TorchConfig):
    @property
    def backend_cls(self) -> type[TorchBackend]:
        return ContestedBackend


def total(config: dict[str, Any]) -> tuple[float, int]:
    """Add ones over the ranks, in the group of the run and in one that the function makes by torch's variables."""
    from torch import distributed

    value = torch.ones(1)
    distributed.all_reduce(value)
    if config["again"]:
        distributed.destroy_process_group()
        distributed.init_process_group("gloo")
        distributed.all_reduce(value)
    return value.item(), len(taken)


@pytest.mark.parametrize("method", ["env", "tcp"])
def test_another_process_cannot_take_the_port_of_the_rendezvous(fit: Any, method: str) -> None:
    result = fit(
        TorchTrainer,
        total,
        {"again": False},
        torch_config=ContestedConfig(backend="gloo", init_method=method),
    )
    assert result.return_value == (2.0, 0)


def test_a_training_function_makes_a_group_of_its_own_at_the_same_port(fit: Any) -> None:
    assert fit(TorchTrainer, total, {"again": True}).return_value == (4.0, 0)
