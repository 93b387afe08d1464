"""Algorithms as trials of Tune."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import skate as ray
from skate import tune
from skate.rllib.algorithms.algorithm import Algorithm
from skate.rllib.algorithms.ppo import PPO, PPOConfig
from skate.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from skate.tune.registry import get_trainable_cls, register_env


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2)
    yield
    ray.shutdown()


class Short(gymnasium.Env[int, int]):
    """Ends after some steps."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.steps = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return 0, 1.0, self.steps == self.length, False, {}


def small() -> PPOConfig:
    """Return a configuration whose iteration takes a tenth of a second."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(train_batch_size=128, minibatch_size=64, num_epochs=1, lr=tune.grid_search([1e-3, 1e-4]))
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .debugging(seed=1)
    )


@ray.remote
class Sampling:
    """Samples with a runner of its own."""

    def __init__(self, config: PPOConfig) -> None:
        self.runner = SingleAgentEnvRunner(config=config)

    def sample(self) -> list[int]:
        return [len(each) for each in self.runner.sample(num_episodes=2, random_actions=True)]


def test_an_actor_finds_the_environment_that_the_driver_has_registered() -> None:
    for length in (3, 6):  # a name may be registered again
        register_env("known-in-the-driver", lambda context, length=length: Short(length))
        config = PPOConfig().environment("known-in-the-driver").env_runners(num_env_runners=1)
        actor = Sampling.remote(config)
        assert ray.get(actor.sample.remote()) == [length, length]
        ray.kill(actor)


def test_a_search_over_a_configuration(tmp_path: Path) -> None:
    # A lambda: trials have to be sent what is registered here.
    register_env("known-here", lambda context: gymnasium.make("CartPole-v1"))
    tuner = tune.Tuner(
        "PPO",
        param_space=small().environment("known-here"),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            name="search",
            stop={"num_env_steps_sampled_lifetime": 256},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
        ),
    )
    results = tuner.fit()
    assert not results.errors
    assert sorted(result.config["lr"] for result in results) == [1e-4, 1e-3]
    for result in results:
        assert result.metrics is not None
        assert result.metrics["training_iteration"] == 2
        assert "episode_return_mean" in result.metrics["env_runners"]
        assert result.checkpoint is not None
        algorithm = Algorithm.from_checkpoint(result.checkpoint)
        assert (algorithm.iteration, algorithm.config.lr) == (2, result.config["lr"])
        algorithm.train()
        algorithm.restore(result.checkpoint)  # as Tune does when a search is continued
        assert (algorithm.iteration, algorithm.train()["training_iteration"]) == (2, 3)
        algorithm.stop()


def test_names_and_registered_environments() -> None:
    assert get_trainable_cls("PPO") is PPO
    assert get_trainable_cls("PPO").get_default_config().lr == 5e-5
    with pytest.raises(NotImplementedError, match="IMPALA is not available"):
        get_trainable_cls("IMPALA")
    made: list[int] = []

    def create(context: dict[str, int]) -> object:
        import gymnasium as gym  # optional

        made.append(context["length"])
        return gym.make("CartPole-v1")

    register_env("mine", create)
    config = small().environment("mine", env_config={"length": 3}).training(lr=1e-3)
    algorithm = config.build_algo()
    algorithm.train()
    algorithm.stop()
    assert set(made) == {3}


def test_the_resources_of_a_trial() -> None:
    config = PPOConfig().environment("CartPole-v1")
    assert PPO.default_resource_request(config).bundles == [{"CPU": 1.0}] * 3
    config.learners(num_learners=2).evaluation(evaluation_interval=1, evaluation_num_env_runners=1)
    assert PPO.default_resource_request(config.to_dict()).bundles == [{"CPU": 1.0}] * 6
    config.learners(num_learners=0, num_gpus_per_learner=1).env_runners(num_env_runners=0)
    assert PPO.default_resource_request(config).bundles[0] == {"CPU": 1.0, "GPU": 1.0}
