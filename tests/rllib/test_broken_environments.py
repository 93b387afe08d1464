"""Environments that return what gymnasium does not ask for, and settings that cannot work: errors that say what is wrong."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from skate.rllib.algorithms.ppo import PPOConfig
from skate.rllib.env.env_checks import misfit

BOX = spaces.Box(-1, 1, (3,), np.float32)


class Broken(gym.Env[Any, Any]):
    """Returns what its settings say from `reset`, and from `step`."""

    observation_space, action_space = BOX, spaces.Discrete(2)

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.config.get("reset", (np.zeros(3, np.float32), {}))

    def step(self, action: Any) -> Any:
        return self.config.get("step", (np.zeros(3, np.float32), 0.0, False, False, {}))


def config_of(env: Any = Broken, **settings: Any) -> PPOConfig:
    config = PPOConfig().environment(env, env_config=settings).env_runners(num_env_runners=0)
    config.training(train_batch_size=16, minibatch_size=8, num_epochs=1)
    return config.rl_module(model_config={"fcnet_hiddens": [4]})


BROKEN = {
    "a reset of the old gym": (
        {"reset": np.zeros(3)},
        "reset() of the environment Broken must return the first observation and a dict of infos, got an array of shape (3,)",
    ),
    "a reset of another shape": (
        {"reset": (np.zeros(4), {})},
        "does not fit its observation_space: it has the shape (4,), and Box(-1.0, 1.0, (3,), float32) has (3,)",
    ),
    "a number for an array": ({"reset": (0.0, {})}, "it has the shape (), and Box"),
    "a step of the old gym": (
        {"step": (np.zeros(3), 0.0, False, {})},
        "step() of the environment Broken must return five values (observation, reward, terminated, truncated, info), got a "
        "tuple of 4",
    ),
    "a step of another shape": (
        {"step": (np.zeros(5), 0.0, False, False, {})},
        "an observation does not fit the observation space: it has the shape (5,)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_a_broken_environment_returns_is_named(name: str) -> None:
    settings, text = BROKEN[name]
    algorithm = config_of(**settings).build_algo()
    try:
        with pytest.raises(ValueError, match=re.escape(text)):
            algorithm.train()
    finally:
        algorithm.stop()


def test_an_old_step_is_refused_where_failed_environments_are_made_anew() -> None:
    config = config_of(step=(np.zeros(3), 0.0, False, {})).fault_tolerance(
        restart_failed_sub_environments=True
    )
    algorithm = config.build_algo()
    try:
        with pytest.raises(ValueError, match="five values"):
            algorithm.train()
    finally:
        algorithm.stop()


@pytest.mark.parametrize(
    ("space", "value", "problem"),
    [
        (BOX, np.zeros(3), None),
        (BOX, [0, 0, 0], None),
        (BOX, [[0], [0, 0]], "is no array, but a list of 2"),
        (spaces.Discrete(2), np.int64(1), None),
        (spaces.Discrete(2), [1, 0], "has the shape (2,), and Discrete(2) has ()"),
        (spaces.Dict(a=BOX, b=spaces.Discrete(2)), {"a": np.zeros(3), "b": 1}, None),
        (spaces.Dict(a=BOX), {"b": 1}, "has the keys 'b', and the space has 'a'"),
        (spaces.Dict(a=BOX), np.zeros(3), "is no dict, but an array of shape (3,)"),
        (spaces.Dict(a=BOX), {"a": np.zeros(2)}, "at 'a' has the shape (2,), and"),
        (spaces.Tuple([BOX, BOX]), (np.zeros(3),), "is no tuple of 2 parts, but a tuple of 1"),
        (spaces.Text(3), 7, None),
        (None, 7, None),
    ],
)
def test_what_does_not_fit_a_space_is_said(space: Any, value: Any, problem: str | None) -> None:
    found = misfit(space, value)
    assert found is None if problem is None else found is not None and problem in found


def test_policies_need_an_environment_of_several_agents() -> None:
    config = config_of("CartPole-v1").multi_agent(policies={"a"}, policy_mapping_fn=lambda *_, **__: "a")
    with pytest.raises(ValueError, match=r"CartPole-v1 is no MultiAgentEnv.*make_multi_agent"):
        config.build_algo()


def test_an_observation_to_act_on_has_the_shape_of_the_space() -> None:
    algorithm = config_of("CartPole-v1").build_algo()
    try:
        assert algorithm.compute_single_action([0.0] * 4) in (0, 1)
        with pytest.raises(
            ValueError, match=r"does not fit the environment's space: it has the shape \(2,\)"
        ):
            algorithm.compute_single_action([0.0, 0.0])
    finally:
        algorithm.stop()
    with pytest.raises(RuntimeError, match=r"this PPO was stopped; build another one"):
        algorithm.train()


@pytest.mark.parametrize(("name", "value"), [("lr", -1.0), ("minibatch_size", 0), ("minibatch_size", 2.5)])
def test_settings_that_cannot_work_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` \({value!r}\) must be"):
        config_of("CartPole-v1").training(**{name: value}).validate()


def test_a_gpu_that_is_not_there_is_not_replaced_by_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    config = config_of("CartPole-v1").learners(num_gpus_per_learner=1)
    with pytest.raises(
        ValueError, match=r"num_gpus_per_learner=1, .*torch finds none.*num_gpus_per_learner=0"
    ):
        config.build_algo()
