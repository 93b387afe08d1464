"""Algorithms as trials of Tune: grid searches inside fluent calls, stop criteria, keys of results, and populations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

gym = pytest.importorskip("gymnasium")
pytest.importorskip("torch")
from ray import tune
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPO
from ray.tune.registry import get_trainable_cls
from ray.tune.schedulers import PopulationBasedTraining
from small_ppo import small

# Ray starts a process with torch for each trial, which takes minutes on a busy machine.
pytestmark = pytest.mark.timeout(900)


def create(context: Any) -> Any:
    return gym.make("CartPole-v1", max_episode_steps=context["length"])


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
        # Ray counts one step more of an episode that two fragments share, so its longest has 8.
        assert result.metrics["env_runners"]["episode_len_min"] == 7


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
    assert (
        isinstance(algorithm, PPO) and algorithm.iteration == 2 and algorithm.config.lr == best.config["lr"]
    )


@pytest.mark.parametrize("trainable", ["PPO", PPO], ids=["name", "class"])
def test_a_trial_asks_for_its_runners(trainable: Any) -> None:
    kind = get_trainable_cls(trainable) if isinstance(trainable, str) else trainable
    request = kind.default_resource_request(small().env_runners(num_env_runners=3, num_cpus_per_env_runner=2))
    assert [bundle.get("CPU", 0) for bundle in request.bundles][-3:] == [2, 2, 2]


@pytest.fixture(scope="module")
def population(session: None, tmp_path_factory: Any) -> Any:
    """The results of a population of two, of which the one with larger batches is always ahead."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        hyperparam_mutations={"lr": [1e-4, 1e-5]},
        resample_probability=1.0,
        synch=True,
    )
    return tune.Tuner(
        "PPO",
        param_space=small().training(lr=1e-3, train_batch_size=tune.grid_search([64, 192])),
        tune_config=tune.TuneConfig(
            scheduler=scheduler, metric="num_env_steps_sampled_lifetime", mode="max", reuse_actors=False
        ),
        run_config=tune.RunConfig(
            name="population",
            storage_path=str(tmp_path_factory.mktemp("populations")),
            stop={"training_iteration": 4},
            verbose=0,
        ),
    ).fit()


@pytest.mark.long
def test_a_population_exchanges_checkpoints(population: Any) -> None:
    assert not population.errors and len(population) == 2
    for result in population:
        assert result.metrics["training_iteration"] == 4
        # Two batches of 64, and then the other's state, which had two batches of 192 behind it, and its size of batches.
        assert 4 * 192 <= result.metrics["num_env_steps_sampled_lifetime"] < 4 * 192 + 20
        assert result.config["train_batch_size"] == 192


@pytest.mark.long
def test_a_population_explores_the_learning_rate(population: Any) -> None:
    rates = sorted(result.config["lr"] for result in population)
    assert rates[0] in (1e-4, 1e-5) and rates[1] == 1e-3
    for result in population:
        learned = result.metrics["learners"]["default_policy"]
        assert learned["default_optimizer_learning_rate"] == pytest.approx(result.config["lr"])
