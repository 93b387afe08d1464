"""Environments with several agents that raise: each is made anew, and the others continue."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

pytest.importorskip("torch")

from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.env.multi_agent_env import MultiAgentEnv
from skate.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner


class Falls(MultiAgentEnv):
    """Ends after ten steps. The first one of each lane raises in its step of number ``fails_at``, or as it is reset."""

    def __init__(self, settings: Any) -> None:
        self.possible_agents = self.agents = ["a", "b"]
        self.observation_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(20))
        self.action_spaces = dict.fromkeys(self.agents, gym.spaces.Discrete(2))
        lane, self.made = settings.vector_index, settings["made"]
        self.made[lane] = self.made.get(lane, 0) + 1
        self.fails_at = settings["fails_at"].get(lane) if self.made[lane] == 1 else None
        self.closed = settings["closed"]
        self.lane = lane
        super().__init__()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.fails_at == 0:
            raise ZeroDivisionError("reset")
        self.at = 0
        return dict.fromkeys(self.agents, 0), {}

    def step(self, action_dict: dict[str, Any]) -> Any:
        self.at += 1
        if self.at == self.fails_at:
            raise ZeroDivisionError(f"step {self.at}")
        over = {"__all__": self.at == 10}
        rewards = dict.fromkeys(self.agents, 1.0)
        return dict.fromkeys(self.agents, self.at), rewards, over, {"__all__": False}, {}

    def close(self) -> None:
        self.closed.append(self.lane)


def runner_of(fails_at: dict[int, int], restart: bool = True) -> MultiAgentEnvRunner:
    config = (
        PPOConfig()
        .environment(Falls, env_config={"fails_at": fails_at, "made": {}, "closed": []})
        .multi_agent(policies={"p"}, policy_mapping_fn=lambda agent_id, episode, **kwargs: "p")
        .env_runners(num_envs_per_env_runner=2)
        .rl_module(model_config={"fcnet_hiddens": [4]})
        .fault_tolerance(restart_failed_sub_environments=restart)
        .debugging(seed=1)
    )
    return MultiAgentEnvRunner(config=config)


def test_a_failed_environment_is_made_anew_and_its_episode_dropped() -> None:
    runner = runner_of({0: 4})
    (first, second) = runner.sample(num_timesteps=12)
    # Of six steps the third was the last good one of the first lane; the fourth failed, and two came after it.
    assert sorted(map(len, (first, second))) == [2, 6]
    settings = runner.config.env_config
    assert settings["made"] == {0: 2, 1: 1} and settings["closed"] == [0]
    assert runner.metrics.peek("num_env_steps_sampled_lifetime") == 8
    ended = runner.sample(num_timesteps=16)
    assert sorted(len(episode) for episode in ended if episode.is_done) == [4, 8]
    runner.stop()


def test_columns_of_a_failed_environment_hold_what_is_whole() -> None:
    runner = runner_of({0: 4, 1: 0})
    assert not runner.samples_columns and runner_of({}, restart=False).samples_columns
    (rollouts,) = runner.sample_rollout(6).values()
    rows = sorted(rollout.columns["obs"].shape[:2] for rollout in rollouts)
    assert rows == [(2, 2), (6, 2)]
    assert all(rollout.valid.all() for rollout in rollouts)
    runner.stop()


def test_without_the_setting_its_exception_comes_out() -> None:
    runner = runner_of({1: 3}, restart=False)
    with pytest.raises(ZeroDivisionError, match="step 3"):
        runner.sample(num_timesteps=12)
    with pytest.raises(ZeroDivisionError, match="reset"):
        runner_of({0: 0}, restart=False).sample(num_timesteps=2)
    runner.stop()
