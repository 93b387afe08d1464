"""Runs that continue in a new process: three iterations after a save have the bits that they would have had without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.connectors.env_to_module import MeanStdFilter
from tests.rllib.test_kills import configured
from tests.rllib.test_ppo import digest

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

#: Opens a checkpoint, and prints what `figures` returns of three further iterations.
CONTINUED = """
import sys
from tests.rllib.test_restored_runs import figures
from skate.rllib.algorithms.algorithm import Algorithm

algorithm = Algorithm.from_checkpoint(sys.argv[1])
print(figures(algorithm))
algorithm.stop()
"""
#: Settings that change during training, which a checkpoint therefore has to have.
SCHEDULES: dict[str, dict[str, Any]] = {
    "PPO": {"lr": [[0, 1e-3], [2000, 1e-5]], "entropy_coeff": [[0, 0.1], [2000, 0.0]]},
    "DQN": {"epsilon": [[0, 1.0], [1000, 0.1]], "target_network_update_freq": 100},
    "SAC": {"tau": 0.05},
}


def figures(algorithm: Any) -> str:
    """Return the weights' hash after three iterations, with figures of the last one."""
    for _ in range(3):
        result = algorithm.train()
    learned = result["learners"]["default_policy"]
    names = sorted(name for name in learned if "loss" in name or "coeff" in name or "rate" in name)
    runners = result["env_runners"]
    shown = [*(learned[name] for name in names), runners["num_episodes_lifetime"]]
    return f"{digest(algorithm)} {result['training_iteration']} {shown}"


@pytest.mark.parametrize("kind", ["PPO", "DQN", "SAC"])
def test_a_run_in_a_new_process_has_the_same_bits(kind: str, tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    orders.mkdir()
    config = configured(kind, orders, 0).training(**SCHEDULES[kind])
    config.env_runners(env_to_module_connector=lambda env, spaces, device: MeanStdFilter())
    if kind != "PPO":
        config.training(store_buffer_in_checkpoints=True)
    algorithm = config.build_algo()
    for _ in range(2):
        algorithm.train()
    path = algorithm.save_to_path(tmp_path / "saved")
    expected = figures(algorithm)
    algorithm.stop()
    done = subprocess.run(
        [sys.executable, "-c", CONTINUED, path],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == expected, done.stderr
    # And so has one that was opened beside the first.
    again = Algorithm.from_checkpoint(path)
    assert figures(again) == expected
    again.stop()
