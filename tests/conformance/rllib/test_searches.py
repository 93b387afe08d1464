"""Algorithms as trials of Tune: grid searches inside fluent calls, stop criteria, keys of results, and populations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
import ray
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.tune.registry import get_trainable_cls
from ray.tune.schedulers import PopulationBasedTraining


@pytest.fixture(scope="module")
def session(own_cluster: None) -> Iterator[None]:
    target = {"address": "local"} if os.environ.get("SKATE_CONFORMANCE_TARGET") == "ray" else {}
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, **target)
    yield
    ray.shutdown()


def create(context: Any) -> Any:
    return gym.make("CartPole-v1", max_episode_steps=context["length"])


def small() -> PPOConfig:
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .debugging(seed=1)
    )


@pytest.fixture(scope="module")
def searched(session: None, tmp_path_factory: Any) -> Any:
    """The results of a search over two fields, one of them below another."""
    config = small().training(lr=tune.grid_search([1e-3, 1e-4]), gamma=0.9)
    tune.register_env("cart-of-searches", create)
    config.environment("cart-of-searches", env_config={"length": tune.grid_search([7])})
    tuner = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="search",
            storage_path=str(tmp_path_factory.mktemp("searches")),
            stop={"num_env_steps_sampled_lifetime": 100},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            verbose=0,
        ),
    )
    return tuner.fit()


def test_each_trial_has_its_settings(searched: Any) -> None:
    assert len(searched) == 2 and not searched.errors
    assert sorted(result.config["lr"] for result in searched) == [1e-4, 1e-3]
    for result in searched:
        assert (result.config["gamma"], result.config["env_config"]) == (0.9, {"length": 7})
        assert result.config["train_batch_size"] == 64
        assert result.metrics["env_runners"]["episode_len_max"] == 7


def test_trials_stop_at_their_criterion(searched: Any) -> None:
    for result in searched:
        assert result.metrics["training_iteration"] == 2
        assert 128 <= result.metrics["num_env_steps_sampled_lifetime"] < 140


@pytest.mark.parametrize(
    "key",
    [
        "training_iteration", "time_this_iter_s", "time_total_s", "num_env_steps_sampled_lifetime",
        "env_runners/episode_return_mean", "env_runners/episode_len_mean", "env_runners/num_episodes",
        "env_runners/num_module_steps_sampled/default_policy", "learners/default_policy/total_loss",
        "learners/default_policy/policy_loss", "learners/default_policy/entropy",
        "learners/__all_modules__/num_env_steps_trained", "timers/training_iteration",
        "fault_tolerance/num_healthy_workers", "config/lr", "trial_id", "pid", "hostname", "node_ip", "date",
    ],
)  # fmt: skip
def test_results_are_flattened_to_these_keys(searched: Any, key: str) -> None:
    frame = searched.get_dataframe()
    assert key in frame.columns and len(frame) == 2 and frame[key].notna().all()


def test_the_best_result_and_its_checkpoint(searched: Any, request: Any) -> None:
    best = searched.get_best_result(metric="env_runners/episode_return_mean", mode="max")
    assert best.metrics["env_runners"]["episode_return_mean"] > 0
    with best.checkpoint.as_directory() as folder:
        assert (Path(folder) / "rllib_checkpoint.json").is_file()
        algorithm = Algorithm.from_checkpoint(folder)
    request.addfinalizer(algorithm.stop)
    assert type(algorithm) is PPO and algorithm.iteration == 2 and algorithm.config.lr == best.config["lr"]


@pytest.mark.parametrize("trainable", ["PPO", PPO], ids=["name", "class"])
def test_a_trial_asks_for_its_runners(trainable: Any) -> None:
    kind = get_trainable_cls(trainable) if isinstance(trainable, str) else trainable
    request = kind.default_resource_request(small().env_runners(num_env_runners=3, num_cpus_per_env_runner=2))
    assert [bundle.get("CPU", 0) for bundle in request.bundles][-3:] == [2, 2, 2]


@pytest.mark.long
def test_a_population_explores_the_learning_rate(session: None, tmp_path: Path) -> None:
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=1,
        hyperparam_mutations={"lr": [1e-3, 1e-4]},
        resample_probability=1.0,
    )
    results = tune.Tuner(
        "PPO",
        param_space=small().training(lr=tune.grid_search([1e-3, 1e-4])),
        tune_config=tune.TuneConfig(
            scheduler=scheduler, metric="env_runners/episode_return_mean", mode="max", reuse_actors=False
        ),
        run_config=tune.RunConfig(
            name="population", storage_path=str(tmp_path), stop={"training_iteration": 3}, verbose=0
        ),
    ).fit()
    assert not results.errors and len(results) == 2
    assert all(result.metrics["training_iteration"] == 3 for result in results)
