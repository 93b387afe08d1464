"""JAX: two workers are one program. The logic also with a stand-in, as the library is not among those for development."""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any

import pytest

from skate.train import ScalingConfig
from skate.train.jax import JaxConfig, JaxTrainer

PRELOAD: list[str] = []  # jax is not to be forked once it has threads


class Group:
    """Stands in for the workers of a run: calls reach this process, once for each."""

    def __init__(self, size: int, patch: pytest.MonkeyPatch) -> None:
        self.size, self.patch = size, patch

    def execute(self, function: Any, *args: Any) -> list[Any]:
        found = []
        for rank in range(self.size):
            place = {"RANK": rank, "WORLD_SIZE": self.size, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": 700}
            for name, value in place.items():
                self.patch.setenv(name, str(value))
            found.append(function(*args))
        return found


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Record the calls of a substitute for `jax`."""
    calls: list[Any] = []
    module: Any = types.ModuleType("jax")
    module.config = types.SimpleNamespace(update=lambda *given: calls.append(given))
    module.distributed = types.SimpleNamespace(
        initialize=lambda **given: calls.append(given), shutdown=lambda: calls.append("shutdown")
    )
    monkeypatch.setitem(sys.modules, "jax", module)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    return calls


def test_workers_are_told_of_each_other(stand_in: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    config = JaxConfig()
    backend = config.backend_cls()
    group: Any = Group(2, monkeypatch)
    backend.on_start(group, config)
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    joined = [each for each in stand_in if isinstance(each, dict)]
    assert joined == [
        {"coordinator_address": "10.0.0.1:700", "num_processes": 2, "process_id": rank} for rank in range(2)
    ]
    assert ("jax_cpu_collectives_implementation", "gloo") in stand_in
    backend.on_shutdown(group, config)
    assert stand_in[-2:] == ["shutdown", "shutdown"]


def test_one_worker_is_alone(stand_in: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    group: Any = Group(1, monkeypatch)
    JaxConfig().backend_cls().on_start(group, JaxConfig())
    assert stand_in == []


def test_gpus_of_the_workers(stand_in: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = JaxTrainer(print, scaling_config=ScalingConfig(num_workers=2, use_gpu=True))
    group: Any = Group(2, monkeypatch)
    trainer.backend_config.backend_cls().on_start(group, trainer.backend_config)
    assert os.environ["JAX_PLATFORMS"] == "cuda"
    assert not [each for each in stand_in if isinstance(each, tuple)], "collectives of CPUs are not asked for"


def test_tpus_are_refused() -> None:
    with pytest.raises(ValueError, match="TPUs are not supported"):
        JaxConfig(use_tpu=True)


def test_the_name_of_the_module_in_ray() -> None:
    assert importlib.import_module("skate.train.v2.jax").JaxTrainer is JaxTrainer


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    group: Any = Group(2, monkeypatch)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'skate\[jax\]'"):
        JaxConfig().backend_cls().on_start(group, JaxConfig())


def loop(config: dict[str, Any]) -> Any:
    """Fits a line by gradient descent: every worker computes on its rows, gradients are summed over all devices."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()), ("rows",))
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(-1, 1)
    mine = slice(
        jax.process_index() * 16 // jax.process_count(), (jax.process_index() + 1) * 16 // jax.process_count()
    )
    by_rows = NamedSharding(mesh, PartitionSpec("rows"))
    dealt = jax.make_array_from_process_local_data(by_rows, x[mine])
    wanted = jax.make_array_from_process_local_data(by_rows, 3 * x[mine] - 1)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x * weights[0] + weights[1] - y) ** 2)

    step = jax.jit(jax.value_and_grad(loss))
    weights, losses = jnp.zeros(2), []
    for _ in range(5):
        value, gradient = step(weights, dealt, wanted)
        weights = weights - 0.3 * gradient
        losses.append(float(value))
    return losses, len(jax.devices()), len(jax.local_devices())


def test_two_workers_compute_what_one_does(fit: Any) -> None:
    pytest.importorskip("jax", reason="jax is not installed (0.5 GB; pip install 'skate[jax]')")
    two = fit(JaxTrainer, loop).return_value
    one = fit(JaxTrainer, loop, workers=1).return_value
    assert two[1:] == (2, 1) and one[1:] == (1, 1)
    assert two[0] == pytest.approx(one[0], abs=1e-5)
    assert two[0][-1] < two[0][0] / 2
