"""Runners, searches and saves that are killed, and environments that raise: bits, whole batches and counters after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("torch")

import skate as ray
from skate import tune
from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.dqn import DQNConfig
from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.algorithms.sac import SACConfig
from tests.rllib.test_ppo import digest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Troubled(gym.Env[Any, Any]):
    """A pole or a pendulum that kills its process, raises, hangs or is slow, as often as there are orders in a folder.

    The name of an order is a runner and a place, such as ``2-step``; its text is what to do. It is taken when it is read.
    An order whose text ends with ``always`` stays.
    """

    def __init__(self, context: Any) -> None:
        self.runner, self.folder = context.worker_index, Path(context["folder"])
        self.inner = gym.make(context.get("game", "CartPole-v1")).unwrapped
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space
        self.steps = 0
        self.obey("init")

    def obey(self, place: str) -> None:
        order = self.folder / f"{self.runner}-{place}"
        if not order.exists():
            return
        how = order.read_text()
        if not how.endswith("always"):
            order.unlink()
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "delay":
            time.sleep(0.7)  # the slow environment under test
            return
        if how == "hang":
            time.sleep(3600)  # the hang under test
        raise LookupError(f"{place} of this environment is broken")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.obey("reset")
        return self.inner.reset(seed=seed)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps % 16 == 9:  # in the middle of a fragment
            self.obey("step")
        observation, reward, over, _, info = self.inner.step(action)
        return observation, float(reward), over, self.steps % 50 == 0, info


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    ray.init(num_cpus=6, preload=["torch"])
    yield
    ray.shutdown()


def configured(kind: str, folder: Path, runners: int, **sampling: Any) -> Any:
    """Return a small configuration of an algorithm, of 64 steps in an iteration for PPO."""
    config: Any = {"PPO": PPOConfig, "DQN": DQNConfig, "SAC": SACConfig}[kind]()
    game = "Pendulum-v1" if kind == "SAC" else "CartPole-v1"
    config.environment(Troubled, env_config={"folder": str(folder), "game": game})
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=2, **sampling)
    config.rl_module(model_config={"fcnet_hiddens": [8], "head_fcnet_hiddens": [8]}).debugging(seed=5)
    if kind == "PPO":
        return config.training(train_batch_size=128, minibatch_size=64, num_epochs=2)
    config.env_runners(rollout_fragment_length=16).reporting(
        min_sample_timesteps_per_iteration=128, min_time_s_per_iteration=0
    )
    return config.training(train_batch_size_per_learner=16, num_steps_sampled_before_learning_starts=64)


def trained(config: Any, folder: Path, orders: dict[str, str], iterations: int = 3) -> tuple[str, Any]:
    """Train with orders for each iteration but the first; return the hash of the weights, and the last result."""
    algorithm = config.build_algo()
    try:
        for iteration in range(iterations):
            if iteration:
                for name, how in orders.items():
                    (folder / name).write_text(how)
            result = algorithm.train()
            assert not list(folder.iterdir()), "an order was not carried out"
        return digest(algorithm), result
    finally:
        algorithm.stop()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("runners", [0, 1, 2, 4])
@pytest.mark.parametrize("kind", ["PPO", "DQN", "SAC"])
def test_the_same_seed_gives_the_same_bits_with_any_runners_and_kills(
    kind: str, runners: int, tmp_path: Path
) -> None:
    expected, quiet = trained(configured(kind, tmp_path, runners), tmp_path, {})
    again, _ = trained(configured(kind, tmp_path, runners), tmp_path, {})
    assert again == expected
    if not runners:
        return
    killed, result = trained(configured(kind, tmp_path, runners), tmp_path, {f"{runners}-step": "kill"})
    assert killed == expected
    assert result["fault_tolerance"]["num_remote_worker_restarts"] == 2
    assert result["fault_tolerance"]["num_healthy_workers"] == runners
    for key in ("num_env_steps_sampled_lifetime", "num_episodes_lifetime"):
        assert result["env_runners"][key] == quiet["env_runners"][key], "the batch is full, and counted once"


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("slow", [1, 2])
@pytest.mark.parametrize("kind", ["PPO", "DQN", "SAC"])
def test_a_slow_runner_changes_no_bit(kind: str, slow: int, tmp_path: Path) -> None:
    expected, _ = trained(configured(kind, tmp_path, 2), tmp_path, {})
    delayed, result = trained(configured(kind, tmp_path, 2), tmp_path, {f"{slow}-step": "delay"})
    assert delayed == expected and result["fault_tolerance"]["num_remote_worker_restarts"] == 0


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("place", ["reset", "step"])
def test_an_environment_that_raises_once_is_made_anew(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected, _ = trained(configured("PPO", tmp_path, 2), tmp_path, {})
    found, result = trained(configured("PPO", tmp_path, 2), tmp_path, {f"1-{place}": "raise"})
    assert found == expected and result["fault_tolerance"]["num_remote_worker_restarts"] == 2
    assert f"{place} of this environment is broken" in caplog.text


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("place", ["init", "reset", "step"])
@pytest.mark.parametrize("runners", [0, 2])
def test_an_environment_that_always_raises_raises_its_own_exception(
    place: str, runners: int, tmp_path: Path
) -> None:
    for runner in range(min(runners, 1), runners + 1):
        (tmp_path / f"{runner}-{place}").write_text("raise always")
    algorithm = None
    with pytest.raises(LookupError, match=f"{place} of this environment is broken"):
        algorithm = configured("PPO", tmp_path, runners).build_algo()
        algorithm.train()
    if algorithm is not None:
        algorithm.stop()


@pytest.mark.usefixtures("session")
def test_an_environment_that_cannot_be_made_again_raises_its_own_exception(tmp_path: Path) -> None:
    algorithm = configured("PPO", tmp_path, 1).build_algo()
    algorithm.train()
    (tmp_path / "1-step").write_text("kill")
    (tmp_path / "1-init").write_text("raise always")
    with pytest.raises(LookupError, match="init of this environment is broken"):
        algorithm.train()
    (tmp_path / "1-init").unlink()
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_an_environment_that_hangs_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = configured("PPO", tmp_path, 2, sample_timeout_s=8.0)
    _, result = trained(config, tmp_path, {"2-step": "hang"}, iterations=2)
    assert result["num_env_steps_sampled_lifetime"] == 256
    assert result["fault_tolerance"]["num_remote_worker_restarts"] == 1
    assert "did not sample its part within sample_timeout_s=8.0" in caplog.text


#: Trains, saves, trains again, and saves over copies of the first save.
SAVING = """
import os, pathlib, sys
from tests.rllib.killed_saves import walk
from tests.rllib.test_kills import configured

folder = pathlib.Path(sys.argv[1])
algorithm = configured("DQN", folder, 0).training(store_buffer_in_checkpoints=True).build_algo()
algorithm.train()
algorithm.save_to_path(folder / "first")
algorithm.train()
walk(folder, algorithm.save_to_path)
os._exit(0)
"""


def test_a_save_of_an_algorithm_killed_at_any_operation_leaves_a_whole_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAVING, str(tmp_path)], capture_output=True, text=True, timeout=600, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    operations = int(done.stdout.split()[0])
    assert operations > 20
    iterations = set()
    whole = {}
    for name in ("first", "second"):
        algorithm = Algorithm.from_checkpoint(tmp_path / name)
        whole[algorithm.iteration] = digest(algorithm), len(algorithm.local_replay_buffer)
        algorithm.stop()
    assert len(whole) == 2
    for after in range(operations):
        algorithm = Algorithm.from_checkpoint(tmp_path / f"saved-{after}")
        found = digest(algorithm), len(algorithm.local_replay_buffer)
        assert found == whole[algorithm.iteration], f"half a checkpoint, killed before operation {after}"
        iterations.add(algorithm.iteration)
        algorithm.stop()
    assert iterations == {1, 2}, "the walk has died before and after the old checkpoint was replaced"


#: A search over PPO that ends itself in the middle.
SEARCH = """
import os, signal, sys, threading
import gymnasium
import skate as ray
from skate import tune
from tests.rllib.test_kills import searched
from tests.rllib.test_tune import small

class Killer(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        if result["training_iteration"] == 2 and all(each.last_result for each in trials):
            os.kill(os.getpid(), signal.SIGKILL)

ray.init(num_cpus=2)
tune.Tuner("PPO", param_space=small(), run_config=searched(sys.argv[1], [Killer()])).fit()
"""


def searched(folder: str, callbacks: list[Any] | None = None) -> tune.RunConfig:
    """Return how a search is run: four iterations of each trial, with a checkpoint after each."""
    return tune.RunConfig(
        storage_path=folder,
        name="search",
        stop={"training_iteration": 4},
        callbacks=callbacks or [],
        verbose=0,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
    )


def weights_of(result: Any) -> list[np.ndarray]:
    algorithm = Algorithm.from_checkpoint(result.checkpoint)
    weights = algorithm.get_weights()["default_policy"]
    algorithm.stop()
    return [weights[name] for name in sorted(weights)]


@pytest.mark.usefixtures("session")
def test_a_search_goes_on_after_a_kill_of_its_driver(tmp_path: Path) -> None:
    from tests.rllib.test_tune import small  # that module starts a session of its own for its tests

    killed = subprocess.run(
        [sys.executable, "-c", SEARCH, str(tmp_path / "killed")],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    restored = tune.Tuner.restore(str(tmp_path / "killed" / "search"), trainable="PPO", param_space=small())
    found = restored.fit()
    assert not found.errors and len(found) == 2
    undisturbed = tune.Tuner("PPO", param_space=small(), run_config=searched(str(tmp_path / "whole"))).fit()
    pairs = zip(*(sorted(each, key=lambda r: r.config["lr"]) for each in (found, undisturbed)), strict=True)
    for one, other in pairs:
        assert one.metrics["training_iteration"] == 4
        assert all(map(np.array_equal, weights_of(one), weights_of(other))), "as if nothing had happened"
